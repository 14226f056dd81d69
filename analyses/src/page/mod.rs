//! Pages that show what was found out: one file each, which needs nothing else, and asks nobody for anything.
//!
//! What a recorded program, its source text and its log say is in a page as JSON alone, and becomes text there, never a part of the page's
//! code: nothing of it is put between tags.

use serde::Serialize;

/// What every page has: places for a title, a style, data and a script.
const PAGE: &str = include_str!("page.html");
/// What looks the same on all of them.
const STYLE: &str = include_str!("page.css");
/// What all of their scripts use.
const SCRIPT: &str = include_str!("page.js");

/// A page whose script draws this.
///
/// # Errors
/// The data have no form as JSON.
pub fn page(title: &str, style: &str, script: &str, data: &impl Serialize) -> serde_json::Result<String> {
    let data = inert(&serde_json::to_string(data)?);
    let parts = [("TITLE", title), ("STYLE", STYLE), ("OWN-STYLE", style), ("SCRIPT", SCRIPT), ("OWN-SCRIPT", script)];
    let fill = |page: String, (name, part): (&str, &str)| page.replace(&format!("<!--{name}-->"), part);
    // The data come last: nothing is looked for in them.
    Ok(parts.into_iter().fold(PAGE.to_owned(), fill).replace("<!--DATA-->", &data))
}

/// JSON in which nothing can end the element that holds it: such characters are in strings only, and may be escaped there.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_stay_data() {
        let text = "</script><!--DATA--><script>alert(1)</script>&amp;<!--TITLE-->";
        let made = page("t", "", "", &text).unwrap();
        assert_eq!(made.matches("alert").count(), 1);
        assert!(!made.contains("<script>alert") && !made.contains("<!--"), "{made}");
        let (_, rest) = made.split_once("id=\"data\">").unwrap();
        let (data, _) = rest.split_once("</script>").unwrap();
        assert_eq!(serde_json::from_str::<String>(data).unwrap(), text);
    }
}
