//! Every route on one page, and the layers around them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONNECTION, HOST};
use axum::http::{HeaderValue, Version};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use futures_util::FutureExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use super::openapi;
use super::places::Place;
use super::problem;
use super::request_id::{self, Identity, REQUEST_ID};
use super::routes::contract::{self, Contract};
use super::routes::{admin, goods, goods_stock, health, metrics, orders, strategies};
use crate::app::App;
use crate::failure::{self, Failure};

/// The largest body that is read. A full cart takes about a KiB.
const BODY_BYTES_MAX: usize = 4 * 1024;

/// The time for the whole of a body. It is received before the request takes a slot, so a slow client keeps none from a
/// buyer.
const BODY_WITHIN: Duration = Duration::from_secs(5);

/// Who a listener is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Everybody: there is one listener.
    Everybody,
    /// Buyers: they have no metrics and no administration.
    Buyers,
    /// Operators: probes, metrics and administration.
    Operators,
}

/// Makes the routes of one instance for an audience.
pub fn router(app: Arc<App>, audience: Audience) -> Router {
    let is_administered = app.config.admin_token.is_some();
    // Refused at the limit before anything waits for a lock or a connection. Probes and metrics stay answered.
    let mut limited = limited(audience, is_administered);
    // An operators' listener without administration has no such route, and no layer without a route is accepted.
    if !limited.get_openapi().paths.paths.is_empty() {
        limited = limited.route_layer(from_fn_with_state(Arc::clone(&app), take_slot));
    }
    let (routes, document) = limited.merge(unlimited(audience)).split_for_parts();
    let contract = Contract(
        openapi::to_json(&openapi::complete(document, &app.config, is_administered && audience != Audience::Buyers))
            .into(),
    );
    let within = app.config.http_timeout;
    let routes = if audience == Audience::Operators { routes } else { routes.merge(contract::page()) };
    enclose(routes.with_state(app), contract, within)
}

/// Puts the layers around every route, from the outermost to the innermost. In one stack: a router clones and boxes anew for
/// every request what it was given one by one.
fn enclose(routes: Router, contract: Contract, within: Duration) -> Router {
    let layers = ServiceBuilder::new()
        .map_request(request_id::forget_unusable)
        .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .map_response(forbid_caching)
        .layer(from_fn_with_state(within, answer_in_time))
        .and_then(|response| problem::of_any_refusal(response).map(Ok))
        .map_response(IntoResponse::into_response)
        .layer(CatchPanicLayer::custom(problem::of_panic))
        .layer(from_fn(check_host))
        .layer(from_fn(keep_for_probes))
        .layer(Extension(contract));
    routes.layer(layers)
}

/// The operations that take a slot, and their part of the document.
fn limited(audience: Audience, is_administered: bool) -> OpenApiRouter<Arc<App>> {
    // GET buys, as it does in the demo that load plans exist for. The framework would let HEAD buy, too.
    let buy_one = routes!(goods_stock::buy_one)
        .map(|routes| routes.head(goods_stock::refuse_method).fallback(goods_stock::refuse_method));
    let mut operations = OpenApiRouter::with_openapi(openapi::base());
    if audience != Audience::Operators {
        operations = operations
            .routes(buy_one)
            .routes(routes!(goods::show))
            .routes(routes!(orders::buy))
            .routes(routes!(orders::buy_cart))
            .routes(routes!(orders::show));
    }
    if audience != Audience::Buyers && is_administered {
        operations = operations.routes(routes!(admin::start_sale)).routes(routes!(admin::history));
    }
    operations
}

/// The operations that are always answered, and their part of the document.
fn unlimited(audience: Audience) -> OpenApiRouter<Arc<App>> {
    let mut operations = OpenApiRouter::default()
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(contract::show));
    if audience != Audience::Operators {
        operations = operations.routes(routes!(strategies::list));
    }
    if audience != Audience::Buyers {
        operations = operations.routes(routes!(metrics::render));
    }
    operations
}

/// Receives the whole body, then takes a slot.
async fn take_slot(State(app): State<Arc<App>>, request: Request, next: Next) -> Result<Response, Failure> {
    let mut request = receive(request).await?;
    let Some(slot) = app.try_slot() else {
        app.metrics.count_shed();
        return Err(overloaded());
    };
    // A purchase takes it along, as it may outlive its request. A look has it until the answer.
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    drop(slot);
    Ok(response)
}

/// Receives the whole body of a request, within bounds.
async fn receive(request: Request) -> Result<Request, Failure> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (head, body) = request.into_parts();
    let oversized = || Failure::new(&failure::OVERSIZED_BODY, failure::OVERSIZED_BODY.meaning);
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(oversized());
    }
    let received = timeout(BODY_WITHIN, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    let received = received.map_err(|_| Failure::new(&failure::BODY_TIMEOUT, failure::BODY_TIMEOUT.meaning))?;
    let bytes = received.map_err(|error| {
        if error.is::<LengthLimitError>() {
            oversized()
        } else {
            Failure::new(&failure::MALFORMED_BODY, "the body could not be read to its end; nothing was written")
        }
    })?;
    Ok(Request::from_parts(head, Body::from(bytes.to_bytes())))
}

fn overloaded() -> Failure {
    Failure::new(&failure::OVERLOADED, failure::OVERLOADED.meaning)
}

/// Refuses a request whose host is not certain (RFC 9112, section 3.2).
async fn check_host(request: Request, next: Next) -> Result<Response, Failure> {
    let hosts = request.headers().get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        return Err(Failure::new(&failure::INVALID_HOST, "send exactly one Host header"));
    }
    Ok(next.run(request).await)
}

/// Refuses whatever is no probe on a connection beyond `--connections-max`, and closes the connection.
async fn keep_for_probes(request: Request, next: Next) -> Response {
    let is_aside = request.extensions().get::<Place>() == Some(&Place::Aside);
    if is_aside && !["/healthz", "/readyz", "/metrics"].contains(&request.uri().path()) {
        let mut response = overloaded().into_response();
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    next.run(request).await
}

/// Lets the code that answers know the id of the request, and waits for the answer.
async fn answer_in_time(State(within): State<Duration>, request: Request, next: Next) -> Response {
    let identity = Identity::of(&request);
    let answered = async { timeout(within, next.run(request)).await.unwrap_or_else(|_| late(within)) };
    identity.around(answered).await
}

fn late(within: Duration) -> Response {
    let detail = format!(
        "no answer within {within:?} of the request: it may have been carried out or not, and may be carried out yet; look \
         before you send it again"
    );
    Failure::new(&failure::REQUEST_TIMEOUT, detail).into_response()
}

/// No answer of this service may be used twice, least of all a purchase by GET.
fn forbid_caching(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::body::{Bytes, to_bytes};
    use axum::http::StatusCode;
    use axum::http::header::CONTENT_TYPE;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_with_a_problem_that_does_not_tell_why() {
        let routes = Router::new().route("/", get(|| async { panic!("a secret") as () }));
        let request = Request::get("/").header(HOST, "lab").body(Body::empty()).unwrap();
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
        for (audience, is_administered) in [
            (Audience::Everybody, true),
            (Audience::Everybody, false),
            (Audience::Buyers, true),
            (Audience::Operators, true),
            (Audience::Operators, false),
        ] {
            let operations = limited(audience, is_administered).merge(unlimited(audience));
            let documented: BTreeSet<_> = operations.get_openapi().paths.paths.keys().cloned().collect();
            let shown = format!("{:?}", operations.split_for_parts().0);
            // What comes after are the routes to where nothing is.
            let (shown, _) = shown.split_once("fallback_router").unwrap();
            let routed: BTreeSet<_> =
                shown.split('"').filter(|text| text.starts_with('/')).map(str::to_owned).collect();
            assert_eq!(documented, routed);
            let has = |beginning: &str| documented.iter().any(|path| path.starts_with(beginning));
            assert_eq!(has("/admin"), is_administered && audience != Audience::Buyers);
            assert_eq!(has("/goods-stock"), audience != Audience::Operators);
            assert_eq!(has("/metrics"), audience != Audience::Buyers);
            assert!(has("/healthz"));
        }
    }
}
