use crate::shop::{read, reproduction};

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
    let script = reproduction(&shop, 1, "seen");
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
    let script = reproduction(&read(&path).unwrap(), 1, "seen");
    let sold =
        r#"if [ "$status" = 302 ] && header "$1" location | LC_ALL=C grep -qF -e '/thanks'; then echo sold; return"#;
    let sold_out = r#"if LC_ALL=C grep -qF -e 'It'\''s gone' "$folder/$1.body"; then echo sold-out; return"#;
    assert!(script.contains(sold) && script.contains(sold_out) && script.contains("\nheader() {"), "{script}");
}
