//! `/openapi.json` and `/docs`: the interface, for programs and for people.

use axum::body::Bytes;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
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

/// `GET /openapi.json`: the document of the interface.
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

/// `GET /docs`: a page that shows the document and can try its operations. Its files are part of the program.
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
    Router::from(SwaggerUi::new("/docs").config(config)).layer(map_response(confine))
}

async fn confine(mut response: Response) -> Response {
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    response
}
