//! What a caller is answered, where all went well: JSON, and the number it stands at.

use annals::SequenceNumber;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::response::Response;

/// JSON that is text already.
pub(super) fn raw_json(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let media = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, media);
    response
}

/// The same, under an entity tag that is the number of the last event: what the next append may
/// expect.
pub(super) fn tagged_json(last: SequenceNumber, text: String) -> Response {
    let mut response = raw_json(text);
    // Digits in quotes are always a header.
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{last}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
