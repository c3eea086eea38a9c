//! Every route on one page, and the layers around them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use futures_util::FutureExt;
use tokio::time::timeout;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::timeout::RequestBodyTimeoutLayer;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::app::App;
use crate::openapi;
use crate::problem::{self, Problem, kind};
use crate::request_id::{self, Identity, REQUEST_ID};
use crate::routes::contract::{self, Contract};
use crate::routes::{admin, goods, goods_stock, health, metrics, orders, strategies};

/// The largest body that is read; the only one there is takes a few dozen bytes.
const BODY_BYTES_MAX: usize = 4 * 1024;

/// How long the body of a request may pause. A request has its slot by the time its body is read, so a client that sends
/// half of one would keep it from buyers for as long as a request may take.
const BODY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Makes the routes of one instance.
pub fn router(app: Arc<App>) -> Router {
    let is_administered = app.config.admin_token.is_some();
    // Refused at the limit before anything queues for a lock or a connection. Probes and metrics stay answered.
    let limited = limited(is_administered).route_layer(from_fn_with_state(Arc::clone(&app), take_slot));
    let (routes, document) = limited.merge(unlimited()).split_for_parts();
    let contract = Contract(openapi::to_json(&openapi::complete(document, &app.config)).into());
    let within = app.config.http_timeout;
    enclose(routes.merge(contract::page()).with_state(app), contract, within)
}

/// Puts the layers around every route, from the outermost to the innermost. In one stack: a router clones and boxes anew for
/// every request what it has been given one by one.
fn enclose(routes: Router, contract: Contract, within: Duration) -> Router {
    let layers = ServiceBuilder::new()
        .map_request(request_id::forget_unusable)
        .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .map_response(forbid_caching)
        .layer(from_fn_with_state(within, answer_in_time))
        .and_then(|response| problem::of_any_refusal(response).map(Ok))
        .map_response(IntoResponse::into_response)
        .layer(CatchPanicLayer::custom(Problem::of_panic))
        .layer(RequestBodyTimeoutLayer::new(BODY_PAUSE_MAX))
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX))
        .layer(Extension(contract));
    routes.layer(layers)
}

/// The operations of which so many are worked on at once, and their part of the document.
fn limited(is_administered: bool) -> OpenApiRouter<Arc<App>> {
    // GET buys, as it does in the demo that load plans exist for. The framework would let HEAD buy, too.
    let buy_one = routes!(goods_stock::buy_one)
        .map(|routes| routes.head(goods_stock::refuse_method).fallback(goods_stock::refuse_method));
    let operations = OpenApiRouter::with_openapi(openapi::base())
        .routes(buy_one)
        .routes(routes!(goods::show))
        .routes(routes!(orders::buy))
        .routes(routes!(orders::buy_cart))
        .routes(routes!(orders::show));
    if is_administered {
        operations.routes(routes!(admin::start_sale)).routes(routes!(admin::history))
    } else {
        operations
    }
}

/// The operations that are always answered, and their part of the document.
fn unlimited() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default()
        .routes(routes!(strategies::list))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::render))
        .routes(routes!(contract::show))
}

async fn take_slot(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let Some(slot) = app.try_slot() else {
        app.metrics.count_shed();
        return Problem::overloaded().into_response();
    };
    // A purchase takes it along, as it may outlive its request. Whoever only looks has it until the answer.
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    drop(slot);
    response
}

/// Lets whoever answers know the id of the request, and waits for so long.
async fn answer_in_time(State(within): State<Duration>, request: Request, next: Next) -> Response {
    let identity = Identity::of(&request);
    let answered = async { timeout(within, next.run(request)).await.unwrap_or_else(|_| late(within)) };
    identity.around(answered).await
}

fn late(within: Duration) -> Response {
    let detail = format!(
        "no answer within {within:?} of the request: what it asked for may have been done or not, and may be done yet; do \
         not repeat it before looking"
    );
    Problem::new(&kind::REQUEST_TIMEOUT, detail).into_response()
}

/// No answer of this service may be used twice, least of all a purchase by GET.
fn forbid_caching(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::body::{Body, Bytes, to_bytes};
    use axum::http::StatusCode;
    use axum::http::header::CONTENT_TYPE;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_with_a_problem_that_does_not_tell_why() {
        let routes = Router::new().route("/", get(|| async { panic!("a secret") as () }));
        let request = Request::get("/").body(Body::empty()).unwrap();
        let response = enclose(routes, Contract(Bytes::new()), Duration::from_secs(1)).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(response.headers()[CONTENT_TYPE], problem::PROBLEM_JSON);
        let body = to_bytes(response.into_body(), 4096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["type"], "urn:seckill-lab:problem:internal");
        assert!(!body.to_string().contains("secret"), "{body}");
    }

    /// Goal: the document names every path that is routed, and no other. Method: the routes are read from what the
    /// router shows of itself for debugging, as it offers no list of them.
    #[test]
    fn the_paths_of_the_document_are_those_of_the_router() {
        for is_administered in [true, false] {
            let operations = limited(is_administered).merge(unlimited());
            let documented: BTreeSet<_> = operations.get_openapi().paths.paths.keys().cloned().collect();
            let shown = format!("{:?}", operations.split_for_parts().0);
            // What comes after are the routes to where nothing is.
            let (shown, _) = shown.split_once("fallback_router").unwrap();
            let routed: BTreeSet<_> =
                shown.split('"').filter(|text| text.starts_with('/')).map(str::to_owned).collect();
            assert_eq!(documented, routed);
            assert_eq!(documented.iter().any(|path| path.starts_with("/admin")), is_administered);
        }
    }
}
