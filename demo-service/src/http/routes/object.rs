//! JSON objects. A derived `Deserialize` also accepts an array of the members in their order. No OpenAPI document
//! promises that.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A `T` that is read from a JSON object only.
#[derive(Debug, Clone, Copy)]
pub struct Object<T>(pub T);

struct ObjectOf<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectOf<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectOf(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct OneField {
        goods_no: i64,
    }

    #[test]
    fn an_object_is_read_and_an_array_is_not() {
        let read = |text: &str| serde_json::from_str::<Object<OneField>>(text).map(|Object(read)| read.goods_no);
        assert_eq!(read(r#"{"goods_no":5}"#).unwrap(), 5);
        for text in ["[5]", "[]", "5", "null", r#"{"goods_no":5,"other":1}"#, "{}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
