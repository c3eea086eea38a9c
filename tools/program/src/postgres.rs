//! URLs of Postgres. The driver knows one server; libpq knows several in a URL.

/// Refuses a URL that names several servers, or says how to choose among them. It also refuses an encoded name of a parameter, which
/// the driver would decode. The error says why and what helps.
///
/// # Errors
/// The URL is such a one.
pub fn one_postgres(url: &str) -> Result<(), String> {
    let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
    let place = place.split_once("://").map_or(place, |(_, place)| place);
    let authority = place.split('/').next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let parameters = || parameters.split('&').filter_map(|parameter| parameter.split_once('='));
    if let Some((name, _)) = parameters().find(|(name, _)| name.contains('%')) {
        return Err(format!("the name of its parameter {name} is encoded; write it as it is"));
    }
    let is_list = |value: &str| value.contains(',') || value.to_ascii_lowercase().contains("%2c");
    if is_list(hosts)
        || parameters().any(|(name, value)| ["host", "hostaddr", "port"].contains(&name) && is_list(value))
    {
        return Err("it names several hosts; name the primary, or one name or address that leads to it".to_owned());
    }
    for (name, value) in parameters() {
        if name == "target_session_attrs" && value != "any" {
            return Err(format!("{name} chooses among several hosts; leave it out, and name the primary"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_several_servers_is_refused() {
        for url in [
            "postgres://a,b/lab",
            "postgres://u:p@a:5432,b:5432/lab",
            "postgres:///lab?host=a,b",
            "postgres:///lab?sslmode=require&host=a%2Cb",
            "postgres:///lab?h%6Fst=a,b",
            "postgres://a/lab?target_session_attrs=primary",
        ] {
            assert!(one_postgres(url).is_err(), "{url}");
        }
        for url in [
            "postgres://u:p,w@a:5432/lab",
            "postgres://a/l,b?sslmode=require&application_name=a,b",
            "postgres:///lab?host=/run/postgresql",
            "postgres://a/lab?target_session_attrs=any",
        ] {
            assert_eq!(one_postgres(url), Ok(()), "{url}");
        }
    }
}
