//! Texts with values, as a user may write them.

use super::*;

/// A value that would change a URL, if it stood there as it is.
const VALUE: &str = "{{url}}/a?b#c&d=é \"";

/// Returns the text with another one for each `{{name}}`.
fn replaced(template: &Template, by: &str) -> String {
    let part = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => text.clone(),
        TemplatePart::Value(_) => by.to_owned(),
    };
    template.parts.iter().map(part).collect()
}

// C56
#[test]
fn a_template_is_kept_and_its_values_stay_values() {
    fuzz::any_text("templates", |text| {
        let template = match Template::parse(text) {
            Ok(template) => template,
            Err(TemplateError::Unclosed { position } | TemplateError::Name { position, .. }) => {
                let rest: String = text.chars().skip(position - 1).collect();
                return assert!(rest.starts_with(OPENING), "{text:?} at {position}");
            }
        };
        assert_eq!(template.to_string(), text);
        let values: Values = template.names().map(|name| (name.to_owned(), VALUE.to_owned())).collect();
        assert_eq!(template.fill(&values), Ok(replaced(&template, VALUE)));
        assert_eq!(template.fill(&Values::new()).is_ok(), template.names().next().is_none());
        if template.to_string().starts_with("http://shop.example/") {
            // As many signs as without the values.
            let signs = |url: &str| ["/", "?", "#", "&", "=", "\""].map(|sign| url.matches(sign).count());
            let filled = template.fill_url(&values).unwrap();
            assert_eq!(signs(&filled), signs(&replaced(&template, "value")), "{filled}");
        }
    });
}
