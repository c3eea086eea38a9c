//! The data of leases, as any client may have written it.

use super::{MARK, node_data, parse};
use crate::recipe::Recipe;

// Z17
#[test]
fn a_number_of_permits_is_read_only_as_a_contender_writes_it() {
    fuzz::any_bytes("permits", |data| {
        if let Some((who, permits)) = parse(data) {
            assert!(permits > 0, "{who:?} has a semaphore of nothing");
            assert_eq!(format!("{who}{MARK}{permits}").as_bytes(), data);
        }
        let number = data.iter().fold(1_u32, |number, byte| number.wrapping_mul(251).wrapping_add(u32::from(*byte)));
        let recipe = format!("semaphore={number}").parse::<Recipe>();
        assert_eq!(recipe.is_ok(), number > 0);
        if let Ok(recipe) = recipe {
            assert_eq!(parse(node_data(recipe).as_bytes()).map(|(_, permits)| permits), Some(number));
        }
    });
}
