//! Buyers sign up before the gate, so that the load is one of purchases alone.

use std::sync::Arc;

use buyers::script::{Customer, SignUpError};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::Client;

use crate::error::Error;
use crate::shop::Shop;

/// Buyers that sign up at the same time. A login is meant to be slow, so more of them would only wait.
const AT_ONCE: usize = 16;

/// Signs the first buyers up, in any order.
///
/// # Errors
///
/// [`Error::Shop`] with the number of the first buyer that could not sign up, and [`Error::Usage`] when the CSV has too few.
pub(super) async fn sign_up(shop: &Shop, client: &Client, buyers: usize) -> Result<Vec<Customer>, Error> {
    if let Some(people) = &shop.people {
        people.ensure(buyers)?;
    }
    let secrets = Arc::new(shop.secrets.names().clone());
    let sign_up = async |number| {
        let mut customer = Customer::new(number, shop.values_of(number)).with_secrets(Arc::clone(&secrets));
        customer.sign_up(&shop.script, &mut client.clone(), None).await?;
        Ok::<_, SignUpError>(customer)
    };
    let signed_up = stream::iter(0..buyers).map(sign_up).buffered(AT_ONCE).try_collect();
    signed_up.await.map_err(|error: SignUpError| Error::Shop(shop.secrets.hide(&error.to_string())))
}
