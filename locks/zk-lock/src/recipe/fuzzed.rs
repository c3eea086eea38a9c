//! The values of `--recipe`.

use super::{KNOWN, Recipe};

// Z17
#[test]
fn a_recipe_is_written_as_it_was_read() {
    fuzz::any_text("recipes", |text| match text.parse::<Recipe>() {
        Ok(recipe) => {
            assert_eq!(recipe.to_string().parse(), Ok(recipe));
            assert!(recipe.permits().is_some() || recipe.to_string() == text);
            assert!(KNOWN.contains(text.split('=').next().unwrap_or_default()));
        }
        Err(refusal) => assert!(refusal.contains("semaphore="), "{text:?}: {refusal}"),
    });
}
