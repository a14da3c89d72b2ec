#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| avernest_fuzz::checks::webhook_body(data));
