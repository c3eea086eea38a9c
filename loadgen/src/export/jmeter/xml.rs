//! JMeter's XML: elements with properties, each followed by the tree of what is below it.

use std::fmt::Display;

/// A plan that is being written.
#[derive(Debug, Default)]
pub(super) struct Plan {
    text: String,
    depth: usize,
}

impl Plan {
    /// The plan so far.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// A line as it is.
    pub(super) fn line(&mut self, line: &str) {
        self.text.extend(std::iter::repeat_n("  ", self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn around(&mut self, open: &str, close: &str, inside: impl FnOnce(&mut Plan)) {
        self.line(open);
        self.depth += 1;
        inside(self);
        self.depth -= 1;
        self.line(close);
    }

    /// Something around something else.
    pub(super) fn within(&mut self, tag: &str, attributes: &str, inside: impl FnOnce(&mut Plan)) {
        self.around(&format!("<{tag}{attributes}>"), &format!("</{tag}>"), inside);
    }

    /// An element with its properties; what is below it follows as a tree.
    pub(super) fn element(&mut self, class: &str, gui: &str, name: &str, properties: impl FnOnce(&mut Plan)) {
        let name = escape(name);
        let attributes = format!(" guiclass=\"{gui}\" testclass=\"{class}\" testname=\"{name}\" enabled=\"true\"");
        self.within(class, &attributes, properties);
    }

    /// An element with nothing below it.
    pub(super) fn leaf(&mut self, class: &str, gui: &str, name: &str, properties: impl FnOnce(&mut Plan)) {
        self.element(class, gui, name, properties);
        self.line("<hashTree/>");
    }

    /// What is below the element before it.
    pub(super) fn tree(&mut self, elements: impl FnOnce(&mut Plan)) {
        self.within("hashTree", "", elements);
    }

    /// Variables as a property of another element.
    pub(super) fn variables(&mut self, property: &str, variables: &[(String, String)]) {
        let attributes = format!(
            " name=\"{property}\" elementType=\"Arguments\" guiclass=\"ArgumentsPanel\" testclass=\"Arguments\" \
             testname=\"User Defined Variables\" enabled=\"true\""
        );
        self.within("elementProp", &attributes, |plan| plan.arguments(variables));
    }

    /// The list of variables itself.
    pub(super) fn arguments(&mut self, variables: &[(String, String)]) {
        if variables.is_empty() {
            self.line("<collectionProp name=\"Arguments.arguments\"/>");
            return;
        }
        self.within("collectionProp", " name=\"Arguments.arguments\"", |plan| {
            for (name, value) in variables {
                plan.within("elementProp", &format!(" name=\"{name}\" elementType=\"Argument\""), |plan| {
                    plan.string("Argument.name", name);
                    plan.string("Argument.value", value);
                    plan.string("Argument.metadata", "=");
                });
            }
        });
    }

    pub(super) fn string(&mut self, name: &str, value: &str) {
        self.property("stringProp", name, escape(value));
    }

    pub(super) fn boolean(&mut self, name: &str, value: bool) {
        self.property("boolProp", name, value);
    }

    pub(super) fn int(&mut self, name: &str, value: u32) {
        self.property("intProp", name, value);
    }

    pub(super) fn long(&mut self, name: &str, value: u64) {
        self.property("longProp", name, value);
    }

    fn property(&mut self, kind: &str, name: &str, value: impl Display) {
        self.line(&format!("<{kind} name=\"{name}\">{value}</{kind}>"));
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_is_indented_and_escaped() {
        let mut plan = Plan::default();
        plan.tree(|plan| plan.leaf("Thing", "Gui", "a \"name\"", |plan| plan.string("text", "1 < 2 && 3 > 2")));
        let expected = "<hashTree>
  <Thing guiclass=\"Gui\" testclass=\"Thing\" testname=\"a &quot;name&quot;\" enabled=\"true\">
    <stringProp name=\"text\">1 &lt; 2 &amp;&amp; 3 &gt; 2</stringProp>
  </Thing>
  <hashTree/>
</hashTree>
";
        assert_eq!(plan.finish(), expected);
    }
}
