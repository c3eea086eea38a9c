//! How the requests of a buyer leave.

use goose::goose::{GooseRequest, GooseUser, goose_method_from_method};
use reqwest::{Client, RequestBuilder, Response};

/// The name of every request in goose's report.
const REQUEST: &str = "buy";

/// How the requests of a buyer leave.
pub trait Transport: Send {
    /// Returns the client that all buyers share. It follows no redirect and keeps no cookie.
    fn client(&self) -> &Client;

    /// Sends a request, and returns the answer as soon as its headers are there. Returns `None` when the load was called off.
    fn send(&mut self, request: RequestBuilder) -> impl Future<Output = Option<reqwest::Result<Response>>> + Send;
}

impl Transport for Client {
    fn client(&self) -> &Client {
        self
    }

    async fn send(&mut self, request: RequestBuilder) -> Option<reqwest::Result<Response>> {
        Some(request.send().await)
    }
}

/// Goose counts and times each request for its report.
impl Transport for GooseUser {
    fn client(&self) -> &Client {
        &self.client
    }

    async fn send(&mut self, request: RequestBuilder) -> Option<reqwest::Result<Response>> {
        let (client, request) = request.build_split();
        let request = match request {
            Ok(request) => request,
            Err(error) => return Some(Err(error)),
        };
        // Goose has names for six methods, and fails at any other one.
        if goose_method_from_method(request.method().clone()).is_err() {
            return Some(client.execute(request).await);
        }
        let request = RequestBuilder::from_parts(client, request);
        let request = GooseRequest::builder().path(REQUEST).set_request_builder(request).build();
        Some(self.request(request).await.ok()?.response)
    }
}
