//! Enums whose variants are numbers in the words of a message.

/// The enum, with all of its variants in `ALL`, and the number of each and back.
macro_rules! numbered {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$of:meta])* $variant:ident,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$of])* $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            /// Its number in a message.
            pub const fn number(self) -> u64 {
                self as u64
            }

            /// The one of that number.
            pub fn from_number(number: u64) -> Option<Self> {
                Self::ALL.get(usize::try_from(number).ok()?).copied()
            }
        }
    };
}
