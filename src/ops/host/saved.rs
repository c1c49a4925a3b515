//! What an operator of ours is made of, in a form that a file can hold.

use std::fmt::Debug;

use tract_onnx::tract_core::internal::*;

use crate::cast::element_type::ElementType;
use crate::ops::host::label::Label;

/// The parameters of an operator, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Names and numbers by their texts: numbers in a file may be of 32 bits.
    pub(crate) texts: Vec<String>,
    /// Sizes, which may have symbols.
    pub(crate) dims: TVec<TDim>,
}

impl Saved {
    /// The same, and a parameter behind it.
    pub(crate) fn with(mut self, parameter: &impl Parameter) -> Saved {
        parameter.put(&mut self);
        self
    }

    /// The parameters, to be taken in their order.
    pub(crate) fn row(&self) -> Row<'_> {
        Row { texts: self.texts.iter(), dims: self.dims.iter() }
    }
}

/// Parameters that have not been taken yet.
pub(crate) struct Row<'a> {
    texts: std::slice::Iter<'a, String>,
    dims: std::slice::Iter<'a, TDim>,
}

impl<'a> Row<'a> {
    /// The next parameter. Fails where there is none, or it is of another type.
    pub(crate) fn take<T: Parameter>(&mut self) -> TractResult<T> {
        T::take(self)
    }

    /// The next parameter, by the name of one of these.
    /// Fails where there is none, or none of these has that name.
    pub(crate) fn take_member<T: Debug>(
        &mut self,
        mut members: impl Iterator<Item = T>,
    ) -> TractResult<T> {
        let name = self.text()?;
        let member = members.find(|member| format!("{member:?}") == name);
        member.with_context(|| format!("{name:?} is none of what there is"))
    }

    fn text(&mut self) -> TractResult<&'a str> {
        self.texts.next().map(String::as_str).context("has too few texts")
    }
}

/// What a file can hold of an operator.
pub(crate) trait Parameter: Sized {
    /// Puts it behind what is saved already.
    fn put(&self, saved: &mut Saved);

    /// Takes what [`put`](Parameter::put) has put there.
    fn take(row: &mut Row) -> TractResult<Self>;
}

/// A parameter of a type whose text can be read.
macro_rules! by_text {
    ($($ty:ty),*) => {
        $(impl Parameter for $ty {
            fn put(&self, saved: &mut Saved) {
                saved.texts.push(self.to_string());
            }

            fn take(row: &mut Row) -> TractResult<$ty> {
                let text = row.text()?;
                text.parse().with_context(|| format!("{text:?} is no {}", stringify!($ty)))
            }
        })*
    };
}

by_text!(String, bool, u8, i32, i64, u32, usize, f32, f64);

/// An enumeration whose members are saved by their names.
macro_rules! members {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $($(#[$doc:meta])* $member:ident),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name { $($(#[$doc])* $member),* }

        impl $name {
            $vis const ALL: &[$name] = &[$($name::$member),*];
        }

        $crate::ops::host::saved::by_debug!($name, $name::ALL.iter().copied());
    };
}

/// These members of an enumeration are saved by their names.
macro_rules! by_debug {
    ($name:ident, $members:expr) => {
        impl $crate::ops::host::saved::Parameter for $name {
            fn put(&self, saved: &mut $crate::ops::host::saved::Saved) {
                saved.texts.push(format!("{self:?}"));
            }

            fn take(
                row: &mut $crate::ops::host::saved::Row,
            ) -> tract_onnx::prelude::TractResult<$name> {
                row.take_member($members)
            }
        }
    };
}

/// By its text, of which tract reads an output without axes as none.
impl Parameter for AxesMapping {
    fn put(&self, saved: &mut Saved) {
        saved.texts.push(self.to_string());
    }

    fn take(row: &mut Row) -> TractResult<AxesMapping> {
        let text = row.text()?;
        let (inputs, outputs) = text.split_once("->").context("has no outputs")?;
        let [inputs, outputs] = [inputs, outputs].map(|axes| axes.split(',').collect::<Vec<_>>());
        AxesMapping::from_strs(&inputs, &outputs)
    }
}

impl Parameter for Label {
    fn put(&self, saved: &mut Saved) {
        saved.texts.push(self.to_string());
    }

    fn take(row: &mut Row) -> TractResult<Label> {
        Ok(row.text()?.into())
    }
}

impl Parameter for DatumType {
    fn put(&self, saved: &mut Saved) {
        saved.texts.push(format!("{self:?}"));
    }

    fn take(row: &mut Row) -> TractResult<DatumType> {
        row.text()?.parse()
    }
}

impl Parameter for ElementType {
    fn put(&self, saved: &mut Saved) {
        saved.texts.push(self.name().into());
    }

    fn take(row: &mut Row) -> TractResult<ElementType> {
        let name = row.text()?;
        ElementType::from_name(name).with_context(|| format!("{name:?} is no element type"))
    }
}

impl Parameter for TDim {
    fn put(&self, saved: &mut Saved) {
        saved.dims.push(self.clone());
    }

    fn take(row: &mut Row) -> TractResult<TDim> {
        row.dims.next().cloned().context("has too few sizes")
    }
}

impl Parameter for Symbol {
    fn put(&self, saved: &mut Saved) {
        self.to_dim().put(saved);
    }

    fn take(row: &mut Row) -> TractResult<Symbol> {
        match row.take()? {
            TDim::Sym(symbol) => Ok(symbol),
            other => bail!("{other} is no symbol"),
        }
    }
}

/// As many as there are, and they.
impl<T: Parameter> Parameter for Vec<T> {
    fn put(&self, saved: &mut Saved) {
        self.len().put(saved);
        self.iter().for_each(|member| member.put(saved));
    }

    fn take(row: &mut Row) -> TractResult<Vec<T>> {
        let count: usize = row.take()?;
        (0..count).map(|_| row.take()).collect()
    }
}

impl<T: Parameter + Clone> Parameter for TVec<T> {
    fn put(&self, saved: &mut Saved) {
        self.to_vec().put(saved);
    }

    fn take(row: &mut Row) -> TractResult<TVec<T>> {
        Ok(Vec::take(row)?.into())
    }
}

impl<T: Parameter, const N: usize> Parameter for [T; N] {
    fn put(&self, saved: &mut Saved) {
        self.iter().for_each(|member| member.put(saved));
    }

    fn take(row: &mut Row) -> TractResult<[T; N]> {
        let members: Vec<T> = (0..N).map(|_| row.take()).collect::<TractResult<_>>()?;
        members.try_into().ok().context("as many as there are")
    }
}

impl<T: Parameter> Parameter for Option<T> {
    fn put(&self, saved: &mut Saved) {
        self.is_some().put(saved);
        self.iter().for_each(|given| given.put(saved));
    }

    fn take(row: &mut Row) -> TractResult<Option<T>> {
        let is_given: bool = row.take()?;
        is_given.then(|| row.take()).transpose()
    }
}

impl<A: Parameter, B: Parameter> Parameter for (A, B) {
    fn put(&self, saved: &mut Saved) {
        self.0.put(saved);
        self.1.put(saved);
    }

    fn take(row: &mut Row) -> TractResult<(A, B)> {
        Ok((row.take()?, row.take()?))
    }
}

/// An operator that can be saved.
pub(crate) trait Save: TypedOp + Sized {
    /// What a file calls it.
    const NAME: &'static str;

    /// What a file calls its outputs.
    const OUTPUTS: &'static [&'static str] = &["output"];

    /// Its parameters.
    fn save(&self) -> Saved;

    /// The operator of these parameters. Fails where some are missing, or are not what
    /// [`Save::save`] writes.
    fn restore(node: Label, row: &mut Row) -> TractResult<Self>;
}

/// A structure is saved as these fields.
macro_rules! fields {
    ($name:ident { $($field:ident),* }) => {
        impl $crate::ops::host::saved::Parameter for $name {
            fn put(&self, saved: &mut $crate::ops::host::saved::Saved) {
                $(self.$field.put(saved);)*
            }

            fn take(row: &mut $crate::ops::host::saved::Row) -> TractResult<$name> {
                Ok($name { $($field: row.take()?),* })
            }
        }
    };
}

/// A file calls the operator `$op`, and its outputs if there are several, by these names, and holds
/// these fields of it; the name of its node it has anew. `$check` fails for fields that do not go
/// together.
macro_rules! save {
    (
        $op:ident, $name:literal $(=> $outputs:expr)?,
        $($node:ident)? { $($field:tt),* } $(, |$restored:ident| $check:expr)?
    ) => {
        impl $crate::ops::host::saved::Save for $op {
            const NAME: &'static str = $name;

            $(const OUTPUTS: &'static [&'static str] = &$outputs;)?

            fn save(&self) -> $crate::ops::host::saved::Saved {
                $crate::ops::host::saved::Saved::default()$(.with(&self.$field))*
            }

            fn restore(
                _label: $crate::ops::host::label::Label,
                _row: &mut $crate::ops::host::saved::Row,
            ) -> TractResult<$op> {
                let op = $op { $($node: _label,)? $($field: _row.take()?),* };
                $({
                    let $restored = &op;
                    $check;
                })?
                Ok(op)
            }
        }
    };
}

pub(crate) use {by_debug, fields, members, save};
