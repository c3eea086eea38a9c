//! Suggestions for misspelt names.

/// One of every three letters of a name may be wrong.
const LETTERS_A_MISTAKE: usize = 3;

/// Returns a question for the end of an error, which names the known name nearest to an unknown one. Empty if none is near.
#[must_use]
pub fn did_you_mean<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let distance = |name: &&str| strsim::damerau_levenshtein(unknown, name);
    let nearest = known.into_iter().min_by_key(distance);
    let mistakes_max = (unknown.chars().count() / LETTERS_A_MISTAKE).max(1);
    let near = nearest.filter(|name| distance(name) <= mistakes_max);
    near.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_asked_for_if_it_is_near() {
        let known = ["unguarded", "zk-mutex", "zk-merge", "pg-merge"];
        for (unknown, meant) in [
            ("zk-mutx", "; did you mean zk-mutex?"),
            ("pg-megre", "; did you mean pg-merge?"),
            ("ungarded", "; did you mean unguarded?"),
            ("redis-lock", ""),
            ("", ""),
        ] {
            assert_eq!(did_you_mean(unknown, known), meant, "{unknown:?}");
        }
    }
}
