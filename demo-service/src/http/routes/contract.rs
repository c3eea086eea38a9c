//! `/openapi.json` and `/docs`: the interface, for programs and for people.

use axum::body::Bytes;
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::answers::Alive;

/// What the page may load: its own files, and nothing from anywhere else. Its script sets styles on elements.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                           img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                           frame-ancestors 'none'";

/// The document, serialized once.
#[derive(Debug, Clone)]
pub struct Contract(pub Bytes);

/// Returns the document of the interface (`GET /openapi.json`).
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "showContract",
    tag = "operation",
    summary = "Read this document",
    description = "`GET /docs` shows it to people.",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object), Alive)
)]
pub async fn show(Extension(Contract(json)): Extension<Contract>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], json)
}

/// Serves a page that shows the document and can try its operations (`GET /docs`). Its files are part of the program.
pub fn page<S: Clone + Send + Sync + 'static>() -> Router<S> {
    // A relative path, so that the page also finds the document behind a proxy that serves this service under some
    // path.
    let config = Config::from("../openapi.json")
        .use_base_layout()
        .display_operation_id(true)
        .display_request_duration(true)
        // So that a link can name an operation: /docs/#/orders/placeOrder.
        .deep_linking(true)
        // The validator would ask a server on the Internet.
        .validator_url("none");
    let page = Router::from(SwaggerUi::new("/docs").config(config)).layer(map_response(confine));
    page.route("/", get(lead_to_page))
}

/// Leads a browser to the page (`GET /`). To every other client there is nothing here.
async fn lead_to_page(headers: HeaderMap) -> Response {
    let wants_page = |accepted: &HeaderValue| accepted.to_str().is_ok_and(|types| types.contains("text/html"));
    if headers.get_all(ACCEPT).iter().any(wants_page) {
        // Relative, for the same reason as above.
        (StatusCode::SEE_OTHER, [(LOCATION, "docs/"), (VARY, "accept")]).into_response()
    } else {
        StatusCode::NOT_FOUND.into_response()
    }
}

async fn confine(mut response: Response) -> Response {
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    response
}
