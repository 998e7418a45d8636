#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| decoder_checks::protobuf(body));
