//! Every route on one page, and the layers around them.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::trace::TraceLayer;

use crate::app::App;
use crate::problem::{self, Problem};
use crate::routes::{admin, goods, goods_stock, health, metrics, orders, strategies};

/// The largest body that is read; the only one there is takes a few dozen bytes.
const BODY_BYTES_MAX: usize = 4 * 1024;

/// Makes the routes of one instance.
pub fn router(app: Arc<App>) -> Router {
    let mut limited = Router::new()
        // GET buys, as it does in the demo that load plans exist for. The framework would let HEAD buy, too.
        .route("/goods-stock/{goods_no}", get(goods_stock::buy_one).head(goods_stock::refuse_head))
        .route("/goods/{goods_no}", get(goods::show))
        .route("/goods/{goods_no}/orders", post(orders::buy))
        .route("/orders", post(orders::buy_cart))
        .route("/orders/{order_id}", get(orders::show));
    if app.config.admin_token.is_some() {
        limited = limited
            .route("/admin/goods/{goods_no}", put(admin::start_sale))
            .route("/admin/history", get(admin::history));
    }
    // Refused at the limit before anything queues for a lock or a connection. Probes and metrics stay answered.
    let limited = limited.route_layer(from_fn_with_state(Arc::clone(&app), take_slot));

    let routes = Router::new()
        .merge(limited)
        .route("/strategies", get(strategies::list))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::render))
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&app), answer_in_time))
        .with_state(app);
    with_problems(routes)
}

/// Makes a problem of whatever goes wrong further in.
fn with_problems(routes: Router) -> Router {
    routes
        .layer(CatchPanicLayer::custom(Problem::of_panic))
        .layer(map_response(problem::of_any_refusal))
        .layer(map_response(forbid_caching))
        .layer(TraceLayer::new_for_http().on_failure(()))
}

async fn take_slot(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let Some(slot) = app.try_slot() else {
        app.metrics.count_shed();
        return Problem::overloaded().into_response();
    };
    request.extensions_mut().insert(slot);
    next.run(request).await
}

async fn answer_in_time(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let within = app.config.http_timeout;
    let answered = tokio::time::timeout(within, next.run(request)).await;
    answered.unwrap_or_else(|_| {
        let detail = format!(
            "no answer within {within:?} of the request: what it asked for may have been done or not, and may be done \
             yet; do not repeat it before looking"
        );
        Problem::request_timeout(detail).into_response()
    })
}

/// No answer of this service may be used twice, least of all a purchase by GET.
async fn forbid_caching(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::StatusCode;
    use axum::http::header::CONTENT_TYPE;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_with_a_problem_that_does_not_tell_why() {
        let routes = Router::new().route("/", get(|| async { panic!("a secret") as () }));
        let request = Request::get("/").body(Body::empty()).unwrap();
        let response = with_problems(routes).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(response.headers()[CONTENT_TYPE], problem::PROBLEM_JSON);
        let body = to_bytes(response.into_body(), 4096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["type"], "urn:seckill-lab:problem:internal");
        assert!(!body.to_string().contains("secret"), "{body}");
    }
}
