//! The data of nodes in a list, as any client may have written it.

use super::{ListRow, json, printable, table};

/// Takes the escapes of a shown text back. `None` if it has one that is not written here.
fn unescaped(shown: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = shown.chars();
    while let Some(letter) = rest.next() {
        let mut put = |letter: char| bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        match (letter, if letter == '\\' { rest.next()? } else { letter }) {
            ('\\', 'n') => put('\n'),
            ('\\', 'r') => put('\r'),
            ('\\', 't') => put('\t'),
            ('\\', '0') => put('\0'),
            ('\\', '\\') => put('\\'),
            ('\\', 'x') => {
                let digits: String = rest.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).ok()?);
            }
            ('\\', 'u') => {
                let (code, _) = rest.as_str().strip_prefix('{')?.split_once('}')?;
                put(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
                rest.nth(code.len() + 1);
            }
            ('\\', _) => return None,
            _ => put(letter),
        }
    }
    Some(bytes)
}

// Z17
#[test]
fn any_data_is_shown_on_one_line_and_in_full() {
    fuzz::any_bytes("listed-data", |data| {
        let shown = printable(data);
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert_eq!(unescaped(&shown).as_deref(), Some(data), "{shown:?}");
        let row = ListRow {
            position: 1,
            state: "holder",
            kind: "exclusive",
            session: "0x1".to_owned(),
            token: 2,
            node: "lock-0000000042".to_owned(),
            data: shown.clone(),
        };
        assert_eq!(table(std::slice::from_ref(&row)).lines().count(), 1, "{shown:?}");
        let read: serde_json::Value = serde_json::from_str(&json(&[row])).unwrap();
        assert_eq!(read[0]["data"], shown.as_str());
    });
}
