//! Lists of buyers, as spreadsheets and users write them.

use std::collections::HashSet;

use super::*;

// C57
#[test]
fn every_buyer_of_a_list_is_kept_once_and_in_order() {
    fuzz::any_bytes("people", |bytes| {
        let people = match People::parse("buyers.csv", bytes) {
            Ok(people) => people,
            Err(refusal) => return assert!(refusal.starts_with("buyers.csv"), "{refusal}"),
        };
        let names = people.names();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(names.iter().all(|name| !name.is_empty() && !is_reserved(name)), "{names:?}");
        assert!(people.lines.iter().all(|line| line.len() == names.len()));
        assert_eq!(people.lines.iter().collect::<HashSet<_>>().len(), people.lines.len());
        assert!(people.ensure(people.lines.len()).is_ok() && people.ensure(people.lines.len() + 1).is_err());
        // A file with the same fields has the same buyers.
        let mut writer = csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
        writer.write_record(names).unwrap();
        people.lines.iter().for_each(|line| writer.write_record(line).unwrap());
        assert_eq!(People::parse("buyers.csv", &writer.into_inner().unwrap()), Ok(people));
    });
}
