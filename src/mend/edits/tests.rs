use super::*;

/// A field 1 = 150; a field 2 = "ab", its length in two bytes; a field 19 that nobody knows.
const MESSAGE: &[u8] =
    &[0x08, 0x96, 0x01, 0x12, 0x82, 0x00, b'a', b'b', 0x99, 0x01, 1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn what_is_not_edited_stays_byte_for_byte() {
    assert_eq!(Edits::default().apply(MESSAGE).unwrap(), MESSAGE);
    let mut edits = Edits::default();
    edits.set_number(1, 1);
    let edited = edits.apply(MESSAGE).unwrap();
    assert_eq!(edited, [&[0x08, 0x01], &MESSAGE[3..]].concat());
}

#[test]
fn fields_are_set_removed_and_put_before_others() {
    let mut edits = Edits::default();
    edits.set_number(3, 7);
    edits.remove((1, 0));
    edits.put_before((2, 0), b"new".to_vec());
    edits.set_bytes((2, 0), b"c");
    let edited = edits.apply(MESSAGE).unwrap();
    let wanted = [&[0x12, 3, b'n', b'e', b'w', 0x12, 1, b'c'], &MESSAGE[8..], &[0x18, 7]].concat();
    assert_eq!(edited, wanted);
}

#[test]
fn a_message_inside_is_edited_and_its_length_follows() {
    let mut outer = vec![0x0a, 18];
    outer.extend_from_slice(MESSAGE);
    let mut edits = Edits::default();
    edits.within(&[(1, ONLY)]).remove((1, 0));
    assert_eq!(edits.apply(&outer).unwrap(), [&[0x0a, 15], &MESSAGE[3..]].concat());
    let twice = [&outer[..], &outer].concat();
    assert!(edits.apply(&twice).unwrap_err().to_string().contains("given twice"));
    assert!(edits.apply(&outer[..9]).is_err());
}
