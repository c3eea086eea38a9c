//! Errors with their causes.

use std::error::Error;

/// Returns an error and its causes in one line, outermost first. A cause that repeats what was said is left out.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes
        .map(ToString::to_string)
        .fold(error.to_string(), |text, said| if text.contains(&said) { text } else { format!("{text}: {said}") })
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Told(&'static str, Option<Box<Told>>);

    impl fmt::Display for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Told {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    #[test]
    fn an_error_is_told_with_its_causes_each_once() {
        let full = || Some(Box::new(Told("disk full", None)));
        assert_eq!(chain(&Told("could not write the report", full())), "could not write the report: disk full");
        assert_eq!(chain(&Told("no server: disk full", full())), "no server: disk full");
        assert_eq!(chain(&Told("disk full", None)), "disk full");
    }
}
