//! Of the store: its records, of which a call's types name one.

#[allow(dead_code, unused_imports)]
#[path = "../../host/src/store/model.rs"]
mod model;

pub(crate) use self::model::StateWrite;
