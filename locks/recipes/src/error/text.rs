//! The texts of errors.

use std::error::Error;

pub(super) fn permits_to_ask_for(at_most: u32) -> String {
    match at_most {
        0 => "it was made without any, make it with 1 or more".to_owned(),
        1 => "ask for 1, it has no more".to_owned(),
        _ => format!("ask for at least 1 and at most {at_most}"),
    }
}

/// Returns an error and its causes in one line, outermost first.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
