use std::path::Path;

use crate::shop::{Crowd, read, reproduction};

const SHOP: &str = "[shop]\nname = \"a\"\nurls = [\"http://127.0.0.1:8000\"]\nstock = 5\n[sale]\nrequests = [\"curl {{url}}/reset\"]\n";

#[test]
fn a_script_has_no_secret_of_a_buyer() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("buyers.csv"), "phone,jwt,pw\n1300,s3cr3t-jwt,s3cr3t-pw\n").unwrap();
    let buy = "[buyers]\ncsv = \"buyers.csv\"\n[buy]\nrequests = [\"curl {{url}}/buy -H 'Authorization: Bearer {{jwt}}' -d \
               'phone={{phone}}&pw={{pw}}'\"]\nsold = [{ status = 201 }]\n";
    let path = folder.path().join("shop.toml");
    std::fs::write(&path, format!("{SHOP}{buy}")).unwrap();
    let shop = read(&path).unwrap();
    let script = reproduction(&shop, Crowd { buyers: 1, purchases: 1 }, "seen");
    assert!(!script.contains("s3cr3t") && script.contains("phone=1300"), "{script}");
    assert!(script.contains("\"${jwt_0:?set it to the value of this buyer}\""), "{script}");
    assert!(script.contains("\"${pw_0:?set it to the value of this buyer}\""), "{script}");
}

#[test]
fn a_script_searches_headers_and_pages() {
    let folder = tempfile::tempdir().unwrap();
    let buy = "[buy]\nrequests = [\"curl {{url}}/buy\"]\nsold = [{ status = 302, header = { Location = \"/thanks\" } }]\n\
               sold-out = [{ text = \"It's gone\" }]\n";
    let path = folder.path().join("shop.toml");
    std::fs::write(&path, format!("{SHOP}{buy}")).unwrap();
    let script = reproduction(&read(&path).unwrap(), Crowd { buyers: 1, purchases: 1 }, "seen");
    let sold =
        r#"if [ "$status" = 302 ] && header "$1" location | LC_ALL=C grep -qF -e '/thanks'; then echo sold; return"#;
    let sold_out = r#"if LC_ALL=C grep -qF -e 'It'\''s gone' "$folder/$1.body"; then echo sold-out; return"#;
    assert!(script.contains(sold) && script.contains(sold_out) && script.contains("\nheader() {"), "{script}");
}

/// Where the shops are whose scripts stand here. `make check` reads them by shellcheck.
const FOLDER: &str = "src/shop/reproduction/tests";

#[test]
#[cfg(feature = "shop-databases")]
fn the_scripts_are_those_that_shellcheck_reads() {
    let scripts = [("postgres", include_str!("tests/postgres.sh")), ("mysql", include_str!("tests/mysql.sh"))];
    let is_old = |(name, expected): &(&str, &str)| {
        let shop = read(&Path::new(FOLDER).join(format!("{name}.toml"))).unwrap();
        let script = reproduction(&shop, Crowd { buyers: 2, purchases: 1 }, "seen");
        if script != *expected {
            std::fs::write(std::env::temp_dir().join(format!("{name}.sh")), &script).unwrap();
        }
        script != *expected
    };
    let old: Vec<_> = scripts.into_iter().filter(is_old).map(|(name, _)| name).collect();
    assert!(old.is_empty(), "read {old:?} in {}, and put them into {FOLDER}", std::env::temp_dir().display());
}

#[test]
fn two_names_of_values_never_share_a_variable() {
    let names = ["a-b", "a_b", "a.b", "2fa", "库存"].map(|name| super::shell::variable(name, 0));
    assert_eq!(names, ["a_2d_b_0", "a_b_0", "a_2e_b_0", "_2fa_0", "_5e93__5b58__0"]);
}

#[cfg(feature = "shop-databases")]
mod booked_shop;
#[cfg(feature = "shop-databases")]
mod sold;
