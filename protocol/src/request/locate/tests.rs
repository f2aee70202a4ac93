//! Tables of bodies, and a comparison with a full JSON parser.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[test]
fn model_and_stream_are_found_in_place() {
    let cases: &[(&str, &str, bool)] = &[
        (r#"{"model":"chat"}"#, "chat", false),
        (r#"{"model":"chat","stream":true}"#, "chat", true),
        (r#" { "stream" : false , "model" : "a/b" } "#, "a/b", false),
        (r#"{"stream":null,"model":"x"}"#, "x", false),
        (
            r#"{"messages":[{"role":"user","content":"\"model\":\"evil\""}],"model":"m"}"#,
            "m",
            false,
        ),
        (
            r#"{"metadata":{"model":"inner","stream":true},"model":"outer"}"#,
            "outer",
            false,
        ),
        (
            "{\"model\":\"\u{4e2d}\u{6587}\"}",
            "\u{4e2d}\u{6587}",
            false,
        ),
        (r#"{"model":"a\u0062c\/d"}"#, "abc/d", false),
        (r#"{"mod\u0065l":"escaped key"}"#, "escaped key", false),
        (
            "\r\n\t{\"model\":\"ws\"\n,\"n\":[1,-2.5e+3,0,true,false,null,[],{}]}\n",
            "ws",
            false,
        ),
    ];
    for (body, name, stream) in cases {
        let found = locate(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(found.model_name, *name, "{body}");
        assert_eq!(found.stream, *stream, "{body}");
        let token = format!("\"{}\"", &body[found.model.clone()]);
        assert_eq!(serde_json::from_str::<String>(&token).unwrap(), *name);
    }
}

#[test]
fn unusable_bodies_are_refused_by_name() {
    use LocateError as E;
    let cases: &[(&str, LocateError)] = &[
        ("", E::Empty),
        (" \n", E::Empty),
        ("\u{feff}{\"model\":\"a\"}", E::ByteOrderMark),
        ("[1]", E::NotAnObject),
        ("null", E::NotAnObject),
        ("\"model\"", E::NotAnObject),
        ("hello", E::Malformed { offset: 0 }),
        ("{}", E::MissingModel),
        (r#"{"stream":true}"#, E::MissingModel),
        (r#"{"model":null}"#, E::BadModel),
        (r#"{"model":7}"#, E::BadModel),
        (r#"{"model":["a"]}"#, E::BadModel),
        (r#"{"model":""}"#, E::BadModel),
        (r#"{"model":"\ud800"}"#, E::BadModel),
        (
            r#"{"model":"a","model":"b"}"#,
            E::Duplicate { field: "model" },
        ),
        (
            r#"{"model":1,"model":"b"}"#,
            E::Duplicate { field: "model" },
        ),
        (
            r#"{"model":"a","\u006dodel":"b"}"#,
            E::Duplicate { field: "model" },
        ),
        (
            r#"{"model":"a","stream":false,"stream":true}"#,
            E::Duplicate { field: "stream" },
        ),
        (r#"{"model":"a","stream":"true"}"#, E::BadStream),
        (r#"{"model":"a","stream":1}"#, E::BadStream),
        (r#"{"model":"a"} x"#, E::TrailingData { offset: 14 }),
        (r#"{"model":"a"}{}"#, E::TrailingData { offset: 13 }),
        (r#"{"model":"a""#, E::Truncated { offset: 12 }),
        (r#"{"model":"a"#, E::Truncated { offset: 11 }),
        (r#"{"model":"a",}"#, E::Malformed { offset: 13 }),
        (r#"{"model" "a"}"#, E::Malformed { offset: 9 }),
        (r#"{'model':"a"}"#, E::Malformed { offset: 1 }),
        (r#"{"model":"a","n":01}"#, E::Malformed { offset: 18 }),
        (r#"{"model":"a","n":1.}"#, E::Malformed { offset: 19 }),
        (r#"{"model":"a","n":tru}"#, E::Malformed { offset: 20 }),
        (r#"{"model":"a","n":[1 2]}"#, E::Malformed { offset: 20 }),
        (r#"{"model":"a","n":[1}}"#, E::Malformed { offset: 19 }),
        (r#"{"model":"a\x"}"#, E::Malformed { offset: 12 }),
        (
            "{\"model\":\"a\",\"t\":\"\n\"}",
            E::Malformed { offset: 18 },
        ),
        (r#"{"model":"a","n":NaN}"#, E::Malformed { offset: 17 }),
    ];
    for (body, wanted) in cases {
        assert_eq!(locate(body.as_bytes()).unwrap_err(), *wanted, "{body}");
    }
}

#[test]
fn routing_fields_in_another_case_are_refused_beside_the_right_ones_and_alone() {
    let model = LocateError::OtherCase { field: "model" };
    let stream = LocateError::OtherCase { field: "stream" };
    for (field, wanted) in [
        (r#""Model":"x""#, model),
        (r#""MODEL":null"#, model),
        (r#""mod\u0045l":"x""#, model),
        (r#""\u004dodel":"x""#, model),
        (r#""Stream":true"#, stream),
        (r#""streaM":1"#, stream),
        ("\"\u{17f}tream\":true", stream),
        (r#""\u017fTREAM":true"#, stream),
        (r#""\u0053\u0054\u0052\u0045\u0041\u004d":true"#, stream),
    ] {
        for body in [
            format!(r#"{{"model":"chat","stream":false,{field}}}"#),
            format!(r#"{{{field},"model":"chat","stream":false}}"#),
            format!("{{{field}}}"),
        ] {
            assert_eq!(locate(body.as_bytes()), Err(wanted), "{body}");
        }
    }
    for field in [
        "models",
        "mode1",
        "model_",
        "streams",
        "xmodel",
        "\u{17f}\u{17f}tream",
    ] {
        let body = format!(r#"{{"model":"chat","{field}":1,"n":{{"Model":"x","Stream":1}}}}"#);
        assert!(locate(body.as_bytes()).is_ok(), "{body}");
    }
}

#[test]
fn depth_is_bounded_exactly() {
    let nested = |levels: usize| {
        let inner = levels - 1;
        format!(
            "{{\"model\":\"a\",\"n\":{}{}}}",
            "[".repeat(inner),
            "]".repeat(inner)
        )
    };
    assert!(locate(nested(MAX_DEPTH as usize).as_bytes()).is_ok());
    let too_deep = nested(MAX_DEPTH as usize + 1);
    let refused = locate(too_deep.as_bytes());
    assert!(matches!(refused, Err(LocateError::TooDeep { .. })));
    // An attacker's body must not cost stack or time either.
    let bomb = format!("{{\"n\":{}", "[{\"a\":".repeat(1_000_000));
    assert!(matches!(
        locate(bomb.as_bytes()),
        Err(LocateError::TooDeep { .. })
    ));
}

#[test]
fn long_model_names_are_refused() {
    let body = format!("{{\"model\":\"{}\"}}", "m".repeat(MAX_MODEL_BYTES + 1));
    assert_eq!(locate(body.as_bytes()).unwrap_err(), LocateError::BadModel);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e300..1e300).prop_map(Value::from),
        "\\PC{0,80}".prop_map(Value::from),
        "[\"\\\\\n\u{1}a-c]{0,80}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map("\\PC{0,8}", inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_valid_body_is_located(
        mut value in prop::collection::btree_map("\\PC{0,8}", json(), 0..8),
        model in "\\PC{1,40}",
        stream in any::<bool>(),
        pretty in any::<bool>(),
    ) {
        value.insert("model".into(), Value::from(model.clone()));
        value.insert("stream".into(), Value::from(stream));
        let body = if pretty {
            serde_json::to_vec_pretty(&value).unwrap()
        } else {
            serde_json::to_vec(&value).unwrap()
        };
        let found = locate(&body).unwrap();
        prop_assert_eq!(found.model_name, model);
        prop_assert_eq!(found.stream, stream);
    }

    #[test]
    fn a_damaged_body_is_refused_exactly_when_a_full_parser_refuses_it(
        value in json(),
        at in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"{}[],:\"\\0-.eEtfn \n\x01a9".to_vec()),
        cut in any::<bool>(),
    ) {
        let mut body = serde_json::to_vec(&serde_json::json!({"model": "m", "v": value})).unwrap();
        let at = at.index(body.len());
        if cut { body.truncate(at) } else { body[at] = byte }
        // Escaped halves of surrogate pairs and duplicate names are the parser's own matters.
        let accepted = match serde_json::from_slice::<Value>(&body) {
            Ok(value) => value.is_object(),
            Err(error) if error.to_string().contains("number out of range") => return Ok(()),
            Err(_) => false,
        };
        let located = locate(&body);
        let well_formed = matches!(
            located,
            Ok(_)
                | Err(LocateError::MissingModel
                    | LocateError::BadModel
                    | LocateError::BadStream
                    | LocateError::Duplicate { .. }
                    | LocateError::OtherCase { .. })
        );
        let surrogate = body.windows(3).any(|pair| pair.eq_ignore_ascii_case(b"\\ud"));
        prop_assume!(std::str::from_utf8(&body).is_ok() && !surrogate);
        prop_assert_eq!(well_formed, accepted, "{:?} {:?}", located, String::from_utf8_lossy(&body));
    }

    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = locate(&body);
    }
}

#[test]
fn body_that_is_no_utf8_is_refused_wherever_the_bytes_stand() {
    for (body, offset) in [
        (&b"{\"model\":\"a\xff\"}"[..], 11),
        (b"{\"model\":\"a\",\"messages\":[\"\xc3(\"]}", 26),
        (b"{\"model\":\"a\",\"x\":\"\xed\xa0\x80\"}", 18),
        (b"{\"model\":\"a\",\"\xf8\":1}", 14),
        (b"{\"model\":\"a\",\"x\":\"\xe4\xb8\"}", 18),
    ] {
        assert_eq!(locate(body), Err(LocateError::NotUtf8 { offset }));
    }
}
