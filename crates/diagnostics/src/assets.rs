//! The files of the page, which are part of the binary: the page needs nothing from elsewhere.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    pub(crate) content_type: &'static str,
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The files by path.
const ASSETS: [(&str, &str, &str); 10] = [
    ("/", HTML, include_str!("../assets/page.html")),
    ("/page.css", CSS, include_str!("../assets/page.css")),
    ("/page.js", SCRIPT, include_str!("../assets/page.js")),
    ("/dom.js", SCRIPT, include_str!("../assets/dom.js")),
    ("/format.js", SCRIPT, include_str!("../assets/format.js")),
    ("/series.js", SCRIPT, include_str!("../assets/series.js")),
    ("/diagram.js", SCRIPT, include_str!("../assets/diagram.js")),
    ("/details.js", SCRIPT, include_str!("../assets/details.js")),
    ("/explanations.js", SCRIPT, include_str!("../assets/explanations.js")),
    ("/icon.svg", SVG, include_str!("../assets/icon.svg")),
];

/// Returns the file at this path.
pub(crate) fn asset(path: &str) -> Option<Asset> {
    let (_, content_type, text) = ASSETS.into_iter().find(|(it, ..)| *it == path)?;
    Some(Asset { content_type, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page works without a network, and with the strictest policy for its contents.
    #[test]
    fn no_file_refers_to_another_host_or_contains_inline_code() {
        for (path, _, text) in ASSETS {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for forbidden in ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacent", "eval("] {
                assert!(!text.contains(forbidden), "{path} contains {forbidden}");
            }
            for inline in [" style=", " onclick=", "<style", "<script>"] {
                assert!(!text.contains(inline), "{path} contains {inline}, which the policy blocks");
            }
        }
    }

    /// Returns the labels of a list in a script: the first text in each of its brackets, or each
    /// text of a list without inner ones.
    fn labels<'a>(script: &'a str, list: &str) -> Vec<&'a str> {
        let list = format!("const {list} = [");
        let line = script.lines().find_map(|it| it.strip_prefix(&list)).expect("the list is in the script");
        let texts = line.split('"').skip(1).step_by(2);
        if line.starts_with('[') { texts.step_by(2).collect() } else { texts.collect() }
    }

    #[test]
    fn every_label_is_explained() {
        let file = |path| asset(path).expect("it is served").text;
        let (details, explanations) = (file("/details.js"), file("/explanations.js"));
        let totals = file("/page.js").split("totals.push([\"").skip(1);
        let totals = totals.filter_map(|it| it.split('"').next());
        let mut shown: Vec<(&str, &str)> = totals.map(|it| ("totals", it)).collect();
        shown.extend(labels(file("/diagram.js"), "HEADS").into_iter().map(|it| ("pipeline", it)));
        for (part, list) in [
            ("informer", "INFORMER"),
            ("queue", "CONTROLLER"),
            ("queue", "QUEUE"),
            ("channel", "CHANNEL"),
            ("handlers", "HANDLERS"),
            ("lists", "RELISTS"),
            ("keys", "KEYS"),
            ("endpoints", "ENDPOINTS"),
        ] {
            shown.extend(labels(details, list).into_iter().map(|it| (part, it)));
        }
        assert!(shown.len() > 40, "{shown:?}");
        for (part, label) in shown {
            let of_part =
                explanations.split_once(&format!("[\"{part}\", ")).expect("each part is explained").1;
            let of_part = of_part.split("}],").next().unwrap_or_default();
            assert!(
                of_part.contains(&format!("\n    \"{label}\": \"")),
                "{label} of {part} is not explained"
            );
        }
    }

    #[test]
    fn every_file_that_is_imported_is_served() {
        for (path, _, text) in ASSETS {
            for line in text.lines().filter(|it| it.starts_with("import ")) {
                let imported = line.split('"').nth(1).expect("an import names a file");
                let name = imported.strip_prefix('.').expect("imports are relative");
                assert!(asset(name).is_some(), "{path} imports {imported}");
            }
        }
    }
}
