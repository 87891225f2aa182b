//! Ends of channels as values: shown, and sent in messages.

/// Implements what a sender and a receiver need for that, each with upstream's `raw` and an
/// `id`, and the receiver with an `inbox`; `$sent` and `$received` are their kinds.
macro_rules! handles {
    ($sender:ident as $sent:ident, $receiver:ident as $received:ident) => {
        impl fmt::Debug for $sender {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.raw.fmt(f)
            }
        }

        impl fmt::Debug for $receiver {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.raw.fmt(f)
            }
        }

        impl Serialize for $sender {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                write_handle(&self.raw, Kind::$sent, self.id, serializer)
            }
        }

        impl Serialize for $receiver {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                inbox::leave(self.id, self.inbox.take());
                write_handle(&self.raw, Kind::$received, self.id, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $sender {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let (raw, id) = match read_handle(Kind::$sent, deserializer)? {
                    Read::Packed(Handle::$sent(raw), id) => (raw, id),
                    Read::Packed(..) => return Err(other_kind()),
                    Read::Plain(raw) => (raw, super::outward::new_name()),
                };
                Ok($sender { raw, id })
            }
        }

        impl<'de> Deserialize<'de> for $receiver {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let (raw, id) = match read_handle(Kind::$received, deserializer)? {
                    Read::Packed(Handle::$received(raw), id) => (raw, id),
                    Read::Packed(..) => return Err(other_kind()),
                    Read::Plain(raw) => (raw, new_id()),
                };
                Ok($receiver {
                    raw,
                    id,
                    inbox: RefCell::new(inbox::arrive(id)),
                })
            }
        }
    };
}
pub(super) use handles;
