//! The purchases as a JMeter test plan, in the format of JMeter 2.13.
//!
//! JMeter 2.13 reads no JSON. `buyer.bsh` is a script in BeanShell, which reads it by the parser of Rhino: both belong to JMeter. The
//! elements of the plan only send requests and repeat. The script gives them their values, and turns the last sample of a purchase
//! into the line of the whole purchase.

use askama::Template;
use buyers::script::{Body, ScriptRequest, Steps};
use reqwest::Method;
use reqwest::header::COOKIE;

use super::{ANSWER_WITHIN_MS, Head, ShopLoad, portable};
use crate::engines::JTL_COLUMNS;
use crate::error::Error;

/// The script of the buyers.
const BUYER: &str = include_str!("buyer.bsh");

/// The part of the script that reads answers.
const ANSWERS: &str = include_str!("buyer/answers.bsh");

/// The line of the script that stands for this part.
const ANSWERS_MARK: &str = "    //ANSWERS\n";

/// What every JMeter of a run needs beside the added columns: their names in the first line, and no request that is silently sent
/// twice.
const SETTINGS: &str = "-Jjmeter.save.saveservice.print_field_names=true -Jhttpclient4.retrycount=0";

/// The variables of a thread, and their values at first.
const VARIABLES: [(&str, &str); 10] = [
    ("trial", "${__P(TRIAL,)}"),
    ("intended", ""),
    ("outcome", ""),
    ("buyer", ""),
    ("order", ""),
    ("signing_up", "false"),
    ("buying", "false"),
    ("undecided", "false"),
    ("queued", "false"),
    ("asking", "false"),
];

/// The methods that JMeter 2.13 sends.
const METHODS: [Method; 7] =
    [Method::GET, Method::POST, Method::HEAD, Method::PUT, Method::OPTIONS, Method::DELETE, Method::PATCH];

/// The methods that JMeter 2.13 sends with a body.
const WITH_BODY: [Method; 3] = [Method::POST, Method::PUT, Method::PATCH];

/// The values in the template of the plan.
#[derive(Template)]
#[template(path = "shop/plan.jmx", whitespace = "preserve")]
struct ShopPlan<'a> {
    head: Head,
    /// The name of the file.
    file: &'a str,
    settings: String,
    variables: &'a [(&'a str, &'a str)],
    /// The script that prepares a run.
    preparation: String,
    sign_up: Vec<Sampler>,
    buy: Vec<Sampler>,
    outcome: Vec<Sampler>,
}

/// A request of the plan, which JMeter calls a sampler.
struct Sampler {
    /// The number within its section, from 1.
    number: usize,
    method: Method,
    has_body: bool,
    /// The names of the headers, with expressions of JMeter.
    headers: Vec<(String, String)>,
    within_ms: u128,
}

/// Writes the plan.
pub(super) fn render(load: &ShopLoad, file: &str) -> Result<String, Error> {
    let script = &load.shop.script;
    let outcome = script.outcome.as_ref().map(|poll| steps(&poll.steps)).transpose()?;
    let head = Head::of(load);
    let plan = ShopPlan {
        preparation: preparation(load, &head),
        head,
        file,
        settings: format!("-Jsample_variables={} {SETTINGS}", JTL_COLUMNS.join(",")),
        variables: &VARIABLES,
        sign_up: steps(&script.sign_up)?,
        buy: steps(&script.buy)?,
        outcome: outcome.unwrap_or_default(),
    };
    let text = plan.render().map_err(|error| Error::Generator(format!("the plan cannot be written: {error}")))?;
    Ok(text + "\n")
}

fn steps(steps: &Steps) -> Result<Vec<Sampler>, Error> {
    steps.requests.iter().zip(1..).map(|(request, number)| Sampler::of(request, number)).collect()
}

impl Sampler {
    fn of(request: &ScriptRequest, number: usize) -> Result<Sampler, Error> {
        let refuse = |what: &str| Err(Error::Usage(format!("{}: {what}", request.origin)));
        let ScriptRequest { method, .. } = request;
        let has_body = request.body != Body::Empty;
        if request.follows {
            return refuse(
                "JMeter 2.13 would follow a redirect to any host; leave out --location, and request the target itself",
            );
        }
        if !METHODS.contains(method) {
            return refuse(&format!("JMeter 2.13 cannot send the method {method}; export for k6 or Locust"));
        }
        if has_body && !WITH_BODY.contains(method) {
            return refuse(&format!("JMeter 2.13 sends no body with {method}; export for k6 or Locust"));
        }
        if request.headers.iter().any(|(name, _)| name == COOKIE) {
            return refuse(
                "JMeter 2.13 writes the header `cookie` itself; leave out --cookie, or export for k6 or Locust",
            );
        }
        let mut headers: Vec<_> = request.headers.iter().map(|(name, _)| name.to_string()).zip(0..).collect();
        if let Body::Form(_) = request.body {
            headers.retain(|(name, _)| name != "content-type");
        }
        let mut headers: Vec<_> =
            headers.into_iter().map(|(name, at)| (name, format!("${{request_header_{at}}}"))).collect();
        if let Body::Form(_) = request.body {
            let multipart = "multipart/form-data; boundary=loadgen-form-7d9f2c51";
            headers.push(("content-type".to_owned(), multipart.to_owned()));
        }
        let within_ms = request.within.map_or_else(|| ANSWER_WITHIN_MS.into(), |within| within.as_millis());
        Ok(Sampler { number, method: method.clone(), has_body, headers, within_ms })
    }
}

/// Returns the script that prepares a run.
fn preparation(load: &ShopLoad, head: &Head) -> String {
    let description = portable::described(&load.shop).to_string();
    let arguments = [
        description,
        head.start_at.clone(),
        head.users.to_string(),
        head.pace.ramp_up_ms.to_string(),
        head.pace.duration_ms.to_string(),
        head.pace.rate_per_s.to_string(),
        head.csv.clone(),
    ];
    let arguments = arguments.map(|text| quoted(&text)).join(",\n    ");
    let buyer = BUYER.replace(ANSWERS_MARK, ANSWERS);
    format!(
        "{buyer}
try {{
    loadgen = buyers();
    loadgen.prepare(
    {arguments});
    props.put(\"loadgen\", loadgen);
}} catch (Exception refused) {{
    log.error(refused.getMessage());
    System.err.println(refused.getMessage());
    props.remove(\"loadgen\");
    ctx.getEngine().askThreadsToStop();
}}"
    )
}

/// Returns a text as a string of BeanShell that JMeter takes for no expression of its own.
///
/// The sign of a quotation mark is written by its octal number: BeanShell replaces `\u0022` before it looks for the end of a string.
fn quoted(text: &str) -> String {
    let escaped = |unit: u16| match u8::try_from(unit) {
        Ok(plain @ (b' '..=b'~')) if !b"\"\\$".contains(&plain) => char::from(plain).to_string(),
        Ok(sign) if sign.is_ascii() => format!("\\{sign:03o}"),
        _ => format!("\\u{unit:04x}"),
    };
    let escaped: String = text.encode_utf16().map(escaped).collect();
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn a_text_of_the_script_is_no_expression_of_jmeter() {
        assert_eq!(quoted("a${b}\"\\é\n"), r#""a\044{b}\042\134\u00e9\012""#);
        assert!(![BUYER, ANSWERS].concat().contains("${"), "JMeter would take it for an expression");
        assert!(BUYER.contains(ANSWERS_MARK));
    }
}
