//! Checks the properties of the decoders for the inputs that are kept.

use std::path::Path;

fn each(folder: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
    let mut count = 0;
    for file in std::fs::read_dir(&folder).expect("the corpus exists") {
        let path = file.expect("readable").path();
        let body = std::fs::read(&path).expect("readable");
        let held = std::panic::catch_unwind(|| check(&body)).is_ok();
        assert!(held, "{} violates a property", path.display());
        count += 1;
    }
    assert!(count >= 10, "{count} inputs in {}", folder.display());
}

#[test]
fn the_json_inputs_of_the_corpus_hold_all_properties() {
    each("json", decoder_checks::json);
}

#[test]
fn the_protobuf_inputs_of_the_corpus_hold_all_properties() {
    each("protobuf", decoder_checks::protobuf);
}
