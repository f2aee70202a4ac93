//! Where a JSON object that comes in pieces ends, told without reading it.

/// Follows an object from piece to piece.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    depth: u32,
    is_in_string: bool,
    is_after_backslash: bool,
    is_whole: bool,
}

impl Extent {
    /// Follows one more piece.
    pub(crate) fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            if self.is_after_backslash {
                self.is_after_backslash = false;
            } else if self.is_in_string {
                match byte {
                    b'"' => self.is_in_string = false,
                    b'\\' => self.is_after_backslash = true,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.is_in_string = true,
                    b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        self.is_whole |= self.depth == 0;
                    }
                    _ => {}
                }
            }
        }
    }

    /// True when the object has ended: nothing can follow that belongs to it.
    pub(crate) const fn is_whole(self) -> bool {
        self.is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_ends_with_its_last_brace_and_not_before() {
        let json = r#"{"a":"}\"}","b":{"c":[1,{}]}}"#;
        for cut in 0..=json.len() {
            let (start, end) = json.split_at(cut);
            let mut extent = Extent::default();
            extent.push(start);
            assert_eq!(extent.is_whole(), cut == json.len(), "{start}");
            extent.push(end);
            assert!(extent.is_whole());
        }
    }
}
