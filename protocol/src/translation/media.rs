//! Pictures, documents and sound as dialects write them: data URLs and media types.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::ir::MediaSource;

/// What `url` stands for: the bytes within a data URL, or an address. `None` for a data URL that
/// cannot be read.
#[must_use]
pub fn of_url(url: Cow<'_, str>) -> Option<MediaSource<'_>> {
    let is_data = { url.get(..5) }.is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    if !is_data {
        return Some(MediaSource::Url(url));
    }
    let comma = url.find(',')?;
    let head = url.get(5..comma)?;
    let mut fields = head.split(';').map(str::trim);
    let media_type = media_type(fields.next().unwrap_or_default()).into_owned();
    let is_base64 = fields.any(|field| field.eq_ignore_ascii_case("base64"));
    let media_type = Cow::Owned(media_type);
    let data = if is_base64 {
        from(url, comma + 1)
    } else {
        let bytes = percent_decoded(url.get(comma + 1..)?)?;
        Cow::Owned(BASE64_STANDARD.encode(bytes))
    };
    Some(MediaSource::Base64 { media_type, data })
}

/// The end of `text` from `at` on, borrowed where `text` is.
fn from(text: Cow<'_, str>, at: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(at..).unwrap_or_default()),
        Cow::Owned(mut text) => Cow::Owned(text.split_off(at.min(text.len()))),
    }
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(bytes)
}

/// A media type as the vendors write it: in lower case, without parameters, `image/jpeg` for
/// `image/jpg`, and the one of plain data where nothing is said (RFC 2397).
#[must_use]
pub fn media_type(given: &str) -> Cow<'_, str> {
    let bare = given.split(';').next().unwrap_or_default().trim();
    if bare.is_empty() {
        return Cow::Borrowed("text/plain");
    }
    if bare.eq_ignore_ascii_case("image/jpg") {
        return Cow::Borrowed("image/jpeg");
    }
    if bare.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(bare.to_ascii_lowercase());
    }
    Cow::Borrowed(bare)
}

/// True for the four kinds of pictures that every vendor reads.
#[must_use]
pub fn is_common_picture(media_type: &str) -> bool {
    matches!(
        media_type,
        "image/jpeg" | "image/png" | "image/gif" | "image/webp"
    )
}

/// The text that `data` in base64 is, if it is one.
#[must_use]
pub fn text_within(media_type: &str, data: &str) -> Option<String> {
    let is_text = media_type.starts_with("text/") || media_type == "application/json";
    let bytes = { is_text.then(|| BASE64_STANDARD.decode(data)) }?.ok()?;
    String::from_utf8(bytes).ok()
}

/// A data URL of bytes in base64.
#[must_use]
pub fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_urls_are_read_in_every_spelling() {
        for (url, media_type, data) in [
            (
                "data:image/png;base64,iVBORw0KGgo=",
                "image/png",
                "iVBORw0KGgo=",
            ),
            (
                "DATA:IMAGE/PNG;BASE64,iVBORw0KGgo=",
                "image/png",
                "iVBORw0KGgo=",
            ),
            (
                "data:image/png;charset=utf-8;base64,AA==",
                "image/png",
                "AA==",
            ),
            ("data:image/jpg;base64,/9j/", "image/jpeg", "/9j/"),
            ("data:;base64,AA==", "text/plain", "AA=="),
            ("data:text/plain,a%20b", "text/plain", "YSBi"),
        ] {
            let expected = MediaSource::Base64 {
                media_type: media_type.into(),
                data: data.into(),
            };
            assert_eq!(of_url(url.into()), Some(expected.clone()), "{url}");
            assert_eq!(of_url(url.to_owned().into()), Some(expected), "{url}");
        }
        let address = "https://img.example/a.png";
        assert_eq!(
            of_url(address.into()),
            Some(MediaSource::Url(address.into()))
        );
        for broken in ["data:image/png;base64", "data:text/plain,%zz", "data:,%4"] {
            assert_eq!(of_url(broken.into()), None, "{broken}");
        }
    }
}
