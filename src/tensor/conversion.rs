//! Casting whole tensors, with or without a model.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use anyhow::{Context, ensure};
use tract_onnx::prelude::{DatumType, IntoTValue, IntoTensor, TValue, Tensor, TractResult};

use super::memory::{self, Memory};
use super::parallel::in_parts;
use super::{core_cast, output};
use crate::cast::algebra::TypePair;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::select::select;
use crate::cast::rules::Rules;
use crate::cast::scalar;
use crate::cast::text::parse::Parse;
use crate::cast::text::spell::Spell;
use crate::error::{Cause, Error, Result};

/// A conversion between two element types, its kernel chosen.
///
/// Tensors are carriers (see [`ElementType::datum_type`]): of any shape, scalars and empty ones
/// included.
///
/// A large output that is dropped is kept for the next one of its size, for as long as the
/// conversion or a clone of it lives; the casts of a model share what they keep, which is no more
/// than what they have put out in a run.
///
/// ```
/// use tract_onnx_cast::{Conversion, ElementType, Rules};
/// use tract_onnx::prelude::tensor1;
///
/// let to_e4m3 = Conversion::new(ElementType::Float, ElementType::Float8E4M3FN, Rules::default());
/// let codes = to_e4m3.run(&tensor1(&[1.0f32, 1000.0]))?;
/// assert_eq!(codes, tensor1(&[0x38u8, 0x7E])); // 1 and, saturated, 448
/// # tract_onnx_cast::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Conversion {
    from: ElementType,
    to: ElementType,
    rules: Rules,
    level: Level,
    method: Method,
    memory: Memory,
}

#[derive(Clone)]
enum Method {
    /// Same type, nothing changes.
    Identity,
    /// Between numeric types.
    Numeric(Arc<dyn Kernel>),
    /// To strings.
    Spell(Spell),
    /// From strings.
    Parse(Parse),
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conversion { from, to, rules, level, .. } = self;
        write!(f, "Conversion({from} to {to}, {rules:?}, {level:?})")
    }
}

/// Conversions are equal if their results are: the level does not matter.
impl PartialEq for Conversion {
    fn eq(&self, other: &Conversion) -> bool {
        (self.from, self.to, self.rules) == (other.from, other.to, other.rules)
    }
}

impl Eq for Conversion {}

impl Conversion {
    /// The conversion of `from` to `to`. Every pair has one ([SEMANTICS §1](crate::semantics)).
    pub fn new(from: ElementType, to: ElementType, rules: Rules) -> Conversion {
        let method = match (from.family(), to.family()) {
            _ if from == to && !scalar::changes_values(to, rules) => Method::Identity,
            (Family::Text, _) => Method::Parse(Parse::new(to, rules)),
            (_, Family::Text) => Method::Spell(Spell::new(from)),
            _ => Method::Numeric(select(from, to, rules)),
        };
        let memory = Memory::default();
        Conversion { from, to, rules, level: Level::best(), method, memory }
    }

    /// The conversion that does what tract's own cast does between two of its types; `None` where
    /// there is none, or what a dimension is made of decides.
    pub(crate) fn of_core_cast(from: DatumType, to: DatumType) -> Option<Conversion> {
        if from == DatumType::TDim || to == DatumType::TDim {
            return None;
        }
        let (from, to) = (ElementType::native(from)?, ElementType::native(to)?);
        core_cast::is_equal(from, to).then(|| Conversion::new(from, to, Rules::default()))
    }

    /// The same conversion, which shares what is kept of large outputs with another.
    pub(crate) fn beside(self, other: &Conversion) -> Conversion {
        self.sharing(&other.memory)
    }

    /// The same conversion, which keeps large outputs there.
    pub(crate) fn sharing(self, memory: &Memory) -> Conversion {
        Conversion { memory: memory.clone(), ..self }
    }

    /// What is kept of large outputs.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The same conversion with the instructions of another level, and the same results.
    pub fn at_level(self, level: Level) -> Conversion {
        Conversion { level, ..self }
    }

    /// The element type of what is converted.
    pub fn source(&self) -> ElementType {
        self.from
    }

    /// The element type of the result.
    pub fn target(&self) -> ElementType {
        self.to
    }

    /// The attributes that the conversion honours.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether no value changes: a cast to the same type ([SEMANTICS §4](crate::semantics)).
    pub fn is_identity(&self) -> bool {
        matches!(self.method, Method::Identity)
    }

    /// Whether every value of the source type is one of the target's and becomes it: infinities,
    /// the sign of zero, and NaN (not its payload) included.
    pub fn is_lossless(&self) -> bool {
        self.pair().is_lossless()
    }

    /// The one conversion that equals this one and then `next`, for every value; `None` where the
    /// two together do something that no single cast does, such as rounding twice, or where `next`
    /// starts from another type.
    ///
    /// ```
    /// use tract_onnx_cast::{Conversion, ElementType::*, Rules};
    ///
    /// let cast = |from, to| Conversion::new(from, to, Rules::default());
    /// assert_eq!(cast(BFloat16, Float).then(&cast(Float, Int8)), Some(cast(BFloat16, Int8)));
    /// assert_eq!(cast(Double, Float).then(&cast(Float, Float16)), None);
    /// // 300 becomes 44 in one step of a float to UINT8, and so it does by way of INT32; by way of
    /// // INT64, 3e9 differs.
    /// assert_eq!(cast(Float, Int32).then(&cast(Int32, Uint8)), Some(cast(Float, Uint8)));
    /// assert_eq!(cast(Float, Int64).then(&cast(Int64, Int32)), None);
    /// ```
    pub fn then(&self, next: &Conversion) -> Option<Conversion> {
        if self.to != next.from {
            None
        } else if self.is_identity() {
            Some(next.clone())
        } else if next.is_identity() {
            Some(self.clone())
        } else if self.pair().joins(next.to) {
            let joined = Conversion::new(self.from, next.to, next.rules);
            Some(joined.at_level(next.level).beside(next))
        } else {
            None
        }
    }

    /// Whether tract's own `Cast` makes the same of every value, on any CPU (but for the payloads
    /// of NaN).
    ///
    /// It does not from floats to integers, where it saturates; to and from STRING; from DOUBLE to
    /// FLOAT16, where most CPUs make it round twice. Exotic types it would take for their carriers.
    pub fn equals_core_cast(&self) -> bool {
        core_cast::is_equal(self.from, self.to)
    }

    fn pair(&self) -> TypePair {
        TypePair { from: self.from, to: self.to, rules: self.rules }
    }

    /// Converts a tensor into a new one of the same shape. A large one is divided among the threads
    /// of tract's current executor, which makes no difference to the result.
    ///
    /// # Errors
    ///
    /// When the tensor's type is not the source's carrier or its bytes are not at hand, or a STRING
    /// element is no number that the target can hold: the message has the element's index and text.
    pub fn run(&self, input: &Tensor) -> Result<Tensor> {
        self.check(input).and_then(|()| self.run_checked(input)).map_err(Error::of_argument)
    }

    fn check(&self, input: &Tensor) -> TractResult<()> {
        let (expected, got) = (self.from.datum_type(), input.datum_type());
        ensure!(got == expected, "a tensor of {} is held in {expected:?}, not {got:?}", self.from);
        Ok(())
    }

    /// As [`Conversion::run`], of the bytes of numbers over those of as many of the target type: as
    /// a tensor has them, back to back and aligned.
    ///
    /// # Errors
    ///
    /// When one of the two types is STRING, the bytes are not those of as many elements, or one of
    /// the slices does not begin where such an element may be.
    pub fn overwrite(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        self.overwrite_checked(from, to).map_err(Error::of_argument)
    }

    fn overwrite_checked(&self, from: &[u8], to: &mut [u8]) -> TractResult<()> {
        let widths = self.from.carrier_bytes().zip(self.to.carrier_bytes());
        let (read, written) = widths.context("a STRING is no number")?;
        let is_whole = from.len().is_multiple_of(read) && to.len().is_multiple_of(written);
        ensure!(is_whole && from.len() / read == to.len() / written, "another number of elements");
        if from.is_empty() {
            return Ok(());
        }
        let is_aligned =
            from.as_ptr().align_offset(read) == 0 && to.as_ptr().align_offset(written) == 0;
        ensure!(is_aligned, "the elements are not aligned");
        match &self.method {
            Method::Numeric(kernel) => kernel.overwrite(self.level, from, to),
            _ => to.copy_from_slice(from),
        }
        Ok(())
    }

    /// Inlined, as what it calls, so that the tensor is made where it is to be: for a few elements,
    /// moving it takes as long as converting them.
    #[inline]
    fn run_checked(&self, input: &Tensor) -> TractResult<Tensor> {
        match &self.method {
            Method::Identity => Ok(input.clone()),
            Method::Numeric(kernel) => {
                let types = (self.from, self.to);
                output::convert(kernel.as_ref(), self.level, types, input, &self.memory)
            }
            Method::Spell(spell) => {
                let bytes = input.try_as_plain_ram()?.as_bytes();
                memory::new_strings(input.shape(), |texts| self.spell(spell, bytes, texts))
            }
            Method::Parse(parse) => self.parse(parse, input),
        }
    }

    /// As [`Conversion::run`], of a tensor that is not needed any more: its buffer becomes the
    /// output's where their elements are as wide.
    ///
    /// # Errors
    ///
    /// As [`Conversion::run`].
    pub fn run_owned(&self, input: Tensor) -> Result<Tensor> {
        self.check(&input).and_then(|()| self.run_owned_checked(input)).map_err(Error::of_argument)
    }

    fn run_owned_checked(&self, input: Tensor) -> TractResult<Tensor> {
        let same_width = self.from.carrier_bytes() == self.to.carrier_bytes();
        match &self.method {
            Method::Identity => Ok(input),
            Method::Numeric(kernel)
                if same_width && input.len() > 0 && memory::owns_its_bytes(&input) =>
            {
                Ok(output::convert_in_place(kernel.as_ref(), self.level, self.to, input))
            }
            _ => self.run_checked(&input),
        }
    }

    /// As [`Conversion::run`] or, of a tensor that nobody else has, [`Conversion::run_owned`].
    pub(crate) fn run_value(&self, input: TValue) -> TractResult<TValue> {
        self.check(&input)?;
        match &self.method {
            Method::Spell(spell) => {
                let bytes = input.try_as_plain_ram()?.as_bytes();
                let write = |texts: &mut [String]| self.spell(spell, bytes, texts);
                Ok(self.memory.strings(input.shape(), write)?.into_tvalue())
            }
            _ if input.is_exclusive() => {
                Ok(self.run_owned_checked(input.into_tensor())?.into_tvalue())
            }
            _ => Ok(self.run_checked(&input)?.into_tvalue()),
        }
    }

    #[inline]
    fn spell(&self, spell: &Spell, bytes: &[u8], texts: &mut [String]) {
        let width = self.from.carrier_bytes().unwrap_or(1);
        let elements = texts.len();
        in_parts(texts, 1, elements, |range, part| {
            spell.run(self.level, &bytes[range.start * width..range.end * width], part);
        });
    }

    #[inline]
    fn parse(&self, parse: &Parse, input: &Tensor) -> TractResult<Tensor> {
        let texts = input.try_as_plain_ram()?.as_slice::<String>()?;
        let (to, shape) = (self.to, input.shape());
        output::parse(parse, self.level, to, texts, shape, &self.memory)?.or_else(|index| {
            let text = texts.get(index).map_or("", String::as_str);
            let text = text.chars().take(QUOTED_CHARS).collect();
            Err(Error::from(Cause::Text { index, text, to }))?
        })
    }
}

/// How much of an unreadable string a message repeats.
const QUOTED_CHARS: usize = 80;
