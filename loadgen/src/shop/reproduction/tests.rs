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
