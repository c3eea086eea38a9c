//! Every route on one page, and the layers around them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, HOST};
use axum::http::{HeaderValue, Version};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use axum::{Extension, Router};
use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use super::audience::Audience;
use super::limits::{Arrived, BuyerLimits, OperatorLimit, admit_operator, give_way, receive_body, take_slot};
use super::openapi;
use super::problem;
use super::rates::Rates;
use super::request_id::{self, Identity, REQUEST_ID};
use super::routes::contract::{self, Contract};
use super::routes::{admin, goods, goods_stock, health, metrics, orders, reservations, strategies, tickets};
use crate::app::App;
use crate::failure::{self, Failure};
use crate::sale::IdempotencyKey;

/// Makes the routes of one instance for an audience.
pub fn router(app: Arc<App>, audience: Audience) -> Router {
    // A request over the limit is refused before it waits for a lock or a connection. Probes stay answered.
    let slots =
        |is_buying, rates| from_fn_with_state(BuyerLimits { app: Arc::clone(&app), is_buying, rates }, take_slot);
    let rates = Rates::of(&app.config, app.metrics.rate_limited()).map(Arc::new);
    let buying = slots(true, rates);
    // A buyer that holds units is not kept from paying by a rate.
    let paying = slots(true, None);
    let looking = slots(false, None);
    // From the outside in: there is no permit without the token, and no body is received without a permit.
    let administration = ServiceBuilder::new()
        .layer(from_fn_with_state(Arc::clone(&app), admin::authorize))
        .layer(from_fn_with_state(OperatorLimit::new(&app), admit_operator))
        .layer(from_fn_with_state(Arc::clone(&app), receive_body));
    // Metrics need no body. A client that does not send its body would keep a permit.
    let metrics = from_fn_with_state(OperatorLimit::new(&app), admit_operator);
    let asking = from_fn_with_state(Arc::clone(&app), give_way);
    let enclosed = |group: Group, handlers: Handlers| match group {
        Group::Buying => handlers.route_layer(buying.clone()),
        Group::Paying => handlers.route_layer(paying.clone()),
        Group::Looking => handlers.route_layer(looking.clone()),
        Group::Administration => handlers.route_layer(administration.clone()),
        Group::Metrics => handlers.route_layer(metrics.clone()),
        Group::Asking => handlers.route_layer(asking.clone()),
    };
    let operations = operations(audience, app.config.admin_token.is_some(), enclosed);
    let (routes, document) = operations.split_for_parts();
    let contract = Contract(openapi::to_json(&openapi::complete(document, &app.config)).into());
    let http_timeout = app.config.http_timeout;
    let routes = if audience == Audience::Operators { routes } else { routes.merge(contract::page()) };
    enclose(routes.with_state(app), audience, contract, http_timeout)
}

/// Puts the layers around every route, from the outermost to the innermost. The layers are one stack: if they were
/// added one by one, the router would clone and box each of them for every request.
fn enclose(routes: Router, audience: Audience, contract: Contract, within: Duration) -> Router {
    let layers = ServiceBuilder::new()
        // An unusable id is removed before the next layer, which gives an id to every request without one.
        .map_request(request_id::forget_unusable)
        .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .map_response(forbid_caching)
        .layer(from_fn_with_state(within, answer_in_time))
        .and_then(|response| problem::of_any_refusal(response).map(Ok))
        .map_response(IntoResponse::into_response)
        .layer(CatchPanicLayer::custom(problem::of_panic))
        .layer(from_fn(check_host))
        .layer(Extension(audience))
        .layer(Extension(contract));
    routes.layer(layers)
}

/// The handlers of one path.
type Handlers = MethodRouter<Arc<App>>;

/// Groups of operations with limits of their own. All other operations have no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Purchases, limited by slots and rates.
    Buying,
    /// Ends of reservations, limited by slots.
    Paying,
    /// Looks, limited by slots.
    Looking,
    /// Administration, limited by permits of its own. It needs the token.
    Administration,
    /// Metrics, limited by permits of their own.
    Metrics,
    /// The probe that asks the servers. Its connection gives way to others.
    Asking,
}

/// Makes the operations for an audience, and their document. `enclosed` puts the layers of a group around its
/// handlers. A method that a path does not have is refused outside of these layers.
fn operations(
    audience: Audience,
    is_administered: bool,
    enclosed: impl Fn(Group, Handlers) -> Handlers,
) -> OpenApiRouter<Arc<App>> {
    let buying = |handlers| enclosed(Group::Buying, handlers);
    let paying = |handlers| enclosed(Group::Paying, handlers);
    let looking = |handlers| enclosed(Group::Looking, handlers);
    let administration = |handlers| enclosed(Group::Administration, handlers);
    let mut operations = OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(health::alive))
        .routes(routes!(health::ready).map(|ready| enclosed(Group::Asking, ready)))
        .routes(routes!(contract::show));
    if audience != Audience::Operators {
        // GET buys, as in the demo that load plans exist for. The framework would let HEAD buy, too.
        let buy_one = routes!(goods_stock::buy_one)
            .map(|one| buying(one).head(goods_stock::refuse_method).fallback(goods_stock::refuse_method));
        operations = operations
            .routes(buy_one)
            .routes(routes!(orders::buy).map(buying))
            .routes(routes!(orders::buy_cart).map(buying))
            .routes(routes!(orders::show).map(looking))
            .routes(routes!(tickets::show).map(looking))
            .routes(routes!(reservations::reserve).map(buying))
            .routes(routes!(reservations::confirm).map(paying))
            .routes(routes!(reservations::cancel).map(paying))
            .routes(routes!(reservations::show).map(looking))
            .routes(routes!(goods::show).map(looking))
            .routes(routes!(strategies::list));
    }
    if audience != Audience::Buyers {
        operations = operations.routes(routes!(metrics::render).map(|one| enclosed(Group::Metrics, one)));
        if is_administered {
            operations = operations
                .routes(routes!(admin::start_sale).map(administration))
                .routes(routes!(admin::history).map(administration));
        }
    }
    operations
}

/// Refuses a request with several `Host` headers, or of HTTP/1.1 without one (RFC 9112, section 3.2).
async fn check_host(request: Request, next: Next) -> Result<Response, Failure> {
    let hosts = request.headers().get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        return Err(Failure::new(&failure::INVALID_HOST, "send exactly one Host header"));
    }
    Ok(next.run(request).await)
}

/// Tells the inner layers the id and the arrival of the request. Waits for their answer, at most `within`.
async fn answer_in_time(State(within): State<Duration>, mut request: Request, next: Next) -> Response {
    let arrived = Instant::now();
    request.extensions_mut().insert(Arrived(arrived));
    let identity = Identity::of(&request);
    let key = orders::key_of(request.headers()).ok();
    let answered = async {
        let answer = timeout_at(arrived + within, next.run(request)).await;
        answer.unwrap_or_else(|_| late(within, key.as_ref()))
    };
    identity.around(answered).await
}

fn late(within: Duration, key: Option<&IdempotencyKey>) -> Response {
    let remedy = match key {
        Some(key) => format!("if it was a purchase, send it again with the same Idempotency-Key, {key}"),
        None => "look before you send it again".to_owned(),
    };
    let detail = format!(
        "no answer within {within:?} of the request: it may have been carried out or not, and may be carried out yet; \
         {remedy}"
    );
    Failure::new(&failure::REQUEST_TIMEOUT, detail).into_response()
}

/// Forbids caching. No answer of this service may be used twice, least of all the answer to a purchase by GET.
fn forbid_caching(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::future::pending;

    use axum::body::{Body, Bytes, to_bytes};
    use axum::http::StatusCode;
    use axum::http::header::CONTENT_TYPE;
    use axum::routing::get;
    use serde_json::Value;
    use tower::ServiceExt;

    use super::*;
    use crate::config::Config;

    /// Every kind of listener, and whether there is administration.
    const LISTENERS: [(Audience, bool); 5] = [
        (Audience::Everybody, true),
        (Audience::Everybody, false),
        (Audience::Buyers, true),
        (Audience::Operators, true),
        (Audience::Operators, false),
    ];

    /// Sends a request to `routes` under the deadline `within`. Returns the status and the problem of the answer.
    async fn refusal(routes: Router, within: Duration) -> (StatusCode, Value) {
        let request =
            Request::get("/").header(HOST, "lab").header("idempotency-key", "a-key").body(Body::empty()).unwrap();
        let response =
            enclose(routes, Audience::Everybody, Contract(Bytes::new()), within).oneshot(request).await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], problem::PROBLEM_JSON);
        let status = response.status();
        let body = to_bytes(response.into_body(), 4096).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_panic_is_answered_with_a_problem_that_does_not_tell_why() {
        let routes = Router::new().route("/", get(|| async { panic!("a secret") as () }));
        let (status, problem) = refusal(routes, Duration::from_secs(30)).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(problem["type"], "urn:seckill-lab:problem:internal");
        assert!(!problem.to_string().contains("secret"), "{problem}");
    }

    #[tokio::test]
    async fn a_request_that_takes_too_long_is_told_how_to_ask_again() {
        let routes = Router::new().route("/", get(pending::<()>));
        let (status, problem) = refusal(routes, Duration::from_millis(10)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(problem["type"], "urn:seckill-lab:problem:request-timeout");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("within 10ms") && detail.contains("Idempotency-Key, a-key"), "{detail}");
    }

    /// Returns the document of a listener of a service with these options.
    fn document(audience: Audience, is_administered: bool, options: &[&str]) -> Value {
        let words = ["demo-service", "--database-url", "postgres://localhost/lab", "--zookeeper", "localhost:2181"];
        let config = Config::parse_from_env(words.iter().chain(options).map(OsString::from)).unwrap();
        let document = operations(audience, is_administered, |_, handlers| handlers).into_openapi();
        serde_json::from_str(&openapi::to_json(&openapi::complete(document, &config))).unwrap()
    }

    fn operations_of(document: &Value) -> impl Iterator<Item = &Value> {
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values())
    }

    #[test]
    fn links_lead_to_operations_of_the_same_document() {
        for (audience, is_administered) in LISTENERS {
            let document = document(audience, is_administered, &[]);
            let ids: BTreeSet<_> = operations_of(&document).map(|one| one["operationId"].as_str().unwrap()).collect();
            let answers = operations_of(&document).flat_map(|one| one["responses"].as_object().unwrap().values());
            let links: BTreeSet<_> = answers
                .filter_map(|answer| answer["links"].as_object())
                .flat_map(|links| links.values().map(|link| link["operationId"].as_str().unwrap()))
                .collect();
            assert!(links.is_subset(&ids), "{audience:?}: {links:?}");
            let leads_there = links.contains("startSale");
            assert_eq!(leads_there, is_administered && audience == Audience::Everybody, "{audience:?}");
        }
    }

    #[test]
    fn a_refusal_for_a_rate_is_documented_where_there_is_one() {
        let limited = |options: &[&str]| {
            let document = document(Audience::Everybody, true, options);
            let limited = operations_of(&document).filter(|one| one["responses"]["429"].is_object());
            limited.map(|one| one["operationId"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
        };
        let buying = BTreeSet::from(["buyOne", "placeOrder", "placeCart", "reserveUnits"].map(str::to_owned));
        assert_eq!(limited(&["--rate-per-client", "1"]), buying);
        assert_eq!(limited(&["--rate-per-key", "1"]), buying);
        assert_eq!(limited(&[]), BTreeSet::new());
    }

    #[test]
    fn only_what_has_no_limit_is_documented_as_never_overloaded() {
        let document = document(Audience::Everybody, true, &[]);
        let never = operations_of(&document).filter(|one| !one["responses"].to_string().contains("overloaded"));
        let never: BTreeSet<_> = never.map(|one| one["operationId"].as_str().unwrap()).collect();
        assert_eq!(never, BTreeSet::from(["checkAlive", "listStrategies", "showContract"]));
    }

    /// Goal: the document names every path that is routed, and no other. Method: the routes are read from what the
    /// router shows of itself for debugging, as it offers no list of them.
    // S83
    #[test]
    fn the_paths_of_the_document_are_those_of_the_router() {
        for (audience, is_administered) in LISTENERS {
            let operations = operations(audience, is_administered, |_, handlers| handlers);
            let documented: BTreeSet<_> = operations.get_openapi().paths.paths.keys().cloned().collect();
            let shown = format!("{:?}", operations.split_for_parts().0);
            // The rest of the text is the fallback for unknown paths.
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
