//! Casting whole tensors, with or without a model.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::ensure;
use tract_onnx::prelude::{IntoTValue, IntoTensor, TValue, Tensor, TractResult};

use crate::cast::algebra::TypePair;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::kernel::{self, Kernel, Level};
use crate::cast::rules::Rules;
use crate::cast::scalar;
use crate::cast::text::{self, Parser, Speller};
use crate::error::Error;
use crate::tensor::core_cast;
use crate::tensor::parallel::in_parts;
use crate::tensor::pool;
use crate::tensor::pool_strings::{fill_shared_strings, fill_strings};

/// A conversion between two element types, its kernel chosen.
///
/// Tensors are carriers (see [`ElementType::datum_type`]): of any shape, scalars and empty ones included.
///
/// ```
/// use tract_onnx_cast::{Conversion, ElementType, Rules};
/// use tract_onnx::prelude::tensor1;
///
/// let to_e4m3 = Conversion::new(ElementType::Float, ElementType::Float8E4M3FN, Rules::default());
/// let codes = to_e4m3.run(&tensor1(&[1.0f32, 1000.0]))?;
/// assert_eq!(codes, tensor1(&[0x38u8, 0x7E])); // 1 and, saturated, 448
/// # tract_onnx::prelude::TractResult::Ok(())
/// ```
#[derive(Clone)]
pub struct Conversion {
    from: ElementType,
    to: ElementType,
    rules: Rules,
    level: Level,
    method: Method,
}

#[derive(Clone)]
enum Method {
    /// Same type, nothing changes.
    Identity,
    /// Between numeric types.
    Numeric(Arc<dyn Kernel>),
    /// To strings.
    Format(Spelling),
    /// From strings, through FLOAT where a kernel finishes.
    Parse { parse: Parser, narrow: Option<Arc<dyn Kernel>> },
}

/// How a number becomes a string: widened to a type that has a speller.
#[derive(Clone)]
struct Spelling {
    wide_bytes: usize,
    widen: Arc<dyn Kernel>,
    spell: Speller,
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
    /// The conversion of `from` to `to`. Every pair has one (SEMANTICS §1).
    pub fn new(from: ElementType, to: ElementType, rules: Rules) -> Conversion {
        let method = match (from.family(), to.family()) {
            _ if from == to && !scalar::changes_values(to, rules) => Method::Identity,
            (Family::Text, Family::Float(_)) if to.bits() < 32 => Method::Parse {
                parse: text::parser(to),
                narrow: Some(kernel::select(ElementType::Float, to, rules)),
            },
            (Family::Text, _) => Method::Parse { parse: text::parser(to), narrow: None },
            (_, Family::Text) => {
                let wide = spelled_as(from);
                let spelling = Spelling {
                    wide_bytes: wide.carrier_bytes().unwrap_or(1),
                    widen: kernel::select(from, wide, rules),
                    spell: text::speller(wide),
                };
                Method::Format(spelling)
            }
            _ => Method::Numeric(kernel::select(from, to, rules)),
        };
        Conversion { from, to, rules, level: Level::best(), method }
    }

    /// The same conversion with the instructions of another level, and the same results.
    pub fn at_level(self, level: Level) -> Conversion {
        Conversion { level, ..self }
    }

    /// The source's element type.
    pub fn from(&self) -> ElementType {
        self.from
    }

    /// The target's element type.
    pub fn to(&self) -> ElementType {
        self.to
    }

    /// The attributes that the conversion honours.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether no value changes: a cast to the same type (SEMANTICS §4).
    pub fn is_identity(&self) -> bool {
        matches!(self.method, Method::Identity)
    }

    /// Whether every value of the source type is one of the target's and becomes it: infinities, the sign of zero, and
    /// NaN (not its payload) included.
    pub fn is_lossless(&self) -> bool {
        self.step().is_lossless()
    }

    /// The one conversion that equals this one and then `next`, for every value; `None` where the two together do
    /// something that no single cast does, such as rounding twice, or where `next` starts from another type.
    ///
    /// ```
    /// use tract_onnx_cast::{Conversion, ElementType::*, Rules};
    ///
    /// let cast = |from, to| Conversion::new(from, to, Rules::default());
    /// assert_eq!(cast(BFloat16, Float).then(&cast(Float, Int8)), Some(cast(BFloat16, Int8)));
    /// assert_eq!(cast(Double, Float).then(&cast(Float, Float16)), None);
    /// // 300 becomes 44 in one step of a float to UINT8, and so it does by way of INT32; by way of INT64, 3e9 differs.
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
        } else if self.step().joins(next.to) {
            Some(Conversion::new(self.from, next.to, next.rules).at_level(next.level))
        } else {
            None
        }
    }

    /// Whether tract's own `Cast` makes the same of every value, on any CPU (but for the payloads of NaN).
    ///
    /// It does not from floats to integers, where it saturates; to and from STRING; from DOUBLE to FLOAT16, where
    /// most CPUs make it round twice. Exotic types it would take for their carriers.
    pub fn equals_core_cast(&self) -> bool {
        core_cast::is_equal(self.from, self.to)
    }

    fn step(&self) -> TypePair {
        TypePair { from: self.from, to: self.to, rules: self.rules }
    }

    /// Converts a tensor into a new one of the same shape. A large one is divided among the threads of tract's current
    /// executor, which makes no difference to the result.
    ///
    /// # Errors
    ///
    /// When the tensor's type is not the source's carrier, or a STRING element is no number that the target can hold:
    /// the message has the element's index and text.
    pub fn run(&self, input: &Tensor) -> TractResult<Tensor> {
        self.check(input)?;
        self.run_checked(input)
    }

    fn check(&self, input: &Tensor) -> TractResult<()> {
        let (expected, got) = (self.from.datum_type(), input.datum_type());
        ensure!(got == expected, "a tensor of {} is held in {expected:?}, not {got:?}", self.from);
        Ok(())
    }

    /// Inlined, as what it calls, so that the tensor is made where it is to be: for a few elements, moving it takes as long
    /// as converting them.
    #[inline]
    fn run_checked(&self, input: &Tensor) -> TractResult<Tensor> {
        match &self.method {
            Method::Identity => Ok(input.clone()),
            Method::Numeric(kernel) => self.run_numeric(kernel.as_ref(), input),
            Method::Format(spelling) => {
                fill_strings(input.shape(), |texts| self.spell(spelling, input, texts))
            }
            Method::Parse { parse, narrow } => self.run_parse(*parse, narrow.as_deref(), input),
        }
    }

    /// As [`Conversion::run`], of a tensor that is not needed any more: its buffer becomes the output's where their
    /// elements are as wide.
    ///
    /// # Errors
    ///
    /// As [`Conversion::run`].
    pub fn run_owned(&self, input: Tensor) -> TractResult<Tensor> {
        self.check(&input)?;
        let same_width = self.from.carrier_bytes() == self.to.carrier_bytes();
        match &self.method {
            Method::Identity => Ok(input),
            Method::Numeric(kernel)
                if same_width && input.len() > 0 && pool::owns_its_bytes(&input) =>
            {
                let elements = input.len();
                Ok(pool::rewrite_in_place(input, self.to.datum_type(), |bytes| {
                    in_parts(bytes, bytes.len() / elements, elements, |_, part| {
                        self.rewrite(kernel.as_ref(), part);
                    });
                }))
            }
            _ => self.run_checked(&input),
        }
    }

    /// As [`Conversion::run`] or, of a tensor that nobody else has, [`Conversion::run_owned`].
    pub(crate) fn run_value(&self, input: TValue) -> TractResult<TValue> {
        self.check(&input)?;
        match &self.method {
            Method::Format(spelling) => {
                let write = |texts: &mut [String]| self.spell(spelling, &input, texts);
                Ok(fill_shared_strings(input.shape(), write)?.into_tvalue())
            }
            _ if input.is_exclusive() => Ok(self.run_owned(input.into_tensor())?.into_tvalue()),
            _ => Ok(self.run_checked(&input)?.into_tvalue()),
        }
    }

    /// Runs a kernel from a buffer into itself, by way of tiles: kernels read and write different memory. Apart from its
    /// caller, so that other casts do not pay for a tile on the stack.
    #[inline(never)]
    fn rewrite(&self, kernel: &dyn Kernel, bytes: &mut [u8]) {
        let mut scratch = [0u64; IN_PLACE_TILE];
        let scratch: &mut [u8] = bytemuck::cast_slice_mut(&mut scratch);
        for tile in bytes.chunks_mut(scratch.len()) {
            let copy = &mut scratch[..tile.len()];
            copy.copy_from_slice(tile);
            kernel.run(self.level, copy, tile);
        }
    }

    #[inline]
    fn run_numeric(&self, kernel: &dyn Kernel, input: &Tensor) -> TractResult<Tensor> {
        let elements = input.len();
        let [read, written] = [self.from, self.to].map(|ty| ty.carrier_bytes().unwrap_or(1));
        pool::fill_output(self.to.datum_type(), input.shape(), |output| {
            // The bytes of an empty tensor are nowhere, not even aligned.
            if elements == 0 {
                return Ok(());
            }
            let bytes = input.as_bytes();
            in_parts(output, written, elements, |range, part| {
                let src = &bytes[range.start * read..range.end * read];
                kernel::stream::run(kernel, self.level, (src, read), (part, written), elements);
            });
            Ok(())
        })
    }

    #[inline]
    fn spell(&self, spelling: &Spelling, input: &Tensor, texts: &mut [String]) {
        let Spelling { wide_bytes, widen, spell } = spelling;
        let width = self.from.carrier_bytes().unwrap_or(1);
        let bytes = input.as_bytes();
        in_parts(texts, 1, input.len(), |range, part| {
            with_scratch(part.len(), |scratch| {
                let tiles = bytes[range.start * width..].chunks(scratch.len() * width);
                for (tile, texts) in tiles.zip(part.chunks_mut(scratch.len())) {
                    let tile = &tile[..texts.len() * width];
                    let wide = &mut bytemuck::cast_slice_mut(scratch)[..texts.len() * wide_bytes];
                    widen.run(self.level, tile, wide);
                    spell(wide, texts);
                }
            });
        });
    }

    #[inline]
    fn run_parse(
        &self,
        parse: Parser,
        narrow: Option<&dyn Kernel>,
        input: &Tensor,
    ) -> TractResult<Tensor> {
        let texts = input.try_as_plain_ram()?.as_slice::<String>()?;
        let width = self.to.carrier_bytes().unwrap_or(1);
        pool::fill_output(self.to.datum_type(), input.shape(), |bytes| {
            if texts.is_empty() {
                return Ok(());
            }
            // Every part has a first element that it cannot read; the first of all is the same however many parts there are.
            let unreadable = AtomicUsize::new(texts.len());
            in_parts(bytes, width, texts.len(), |range, part| {
                let first = range.start;
                let texts = &texts[range];
                let result = match narrow {
                    None => parse(texts, part),
                    Some(narrow) => self.parse_tiles(parse, narrow, texts, part, width),
                };
                if let Err(index) = result {
                    unreadable.fetch_min(first + index, Ordering::Relaxed);
                }
            });
            let index = unreadable.into_inner();
            match texts.get(index) {
                None => Ok(()),
                Some(text) => {
                    let text = text.chars().take(QUOTED_CHARS).collect();
                    Err(Error::Text { index, text, to: self.to })?
                }
            }
        })
    }

    fn parse_tiles(
        &self,
        parse: Parser,
        narrow: &dyn Kernel,
        texts: &[String],
        bytes: &mut [u8],
        width: usize,
    ) -> Result<(), usize> {
        with_scratch(texts.len(), |scratch| {
            let size = scratch.len();
            let tiles = texts.chunks(size).zip(bytes.chunks_mut(size * width));
            for (tile, (texts, bytes)) in tiles.enumerate() {
                let wide = &mut bytemuck::cast_slice_mut(scratch)[..texts.len() * size_of::<f32>()];
                parse(texts, wide).map_err(|index| tile * size + index)?;
                narrow.run(self.level, wide, bytes);
            }
            Ok(())
        })
    }
}

/// A tile of words on the way of so many elements to or from strings.
#[inline(always)]
fn with_scratch<R>(elements: usize, act: impl FnOnce(&mut [u64]) -> R) -> R {
    // Clearing a whole tile takes longer than converting a few elements.
    if elements <= SMALL_TILE { act(&mut [0; SMALL_TILE]) } else { act(&mut [0; TILE]) }
}

/// Words of 8 bytes that are copied aside at a time when a buffer is converted in place.
const IN_PLACE_TILE: usize = 512;

/// How much of an unreadable string a message repeats.
const QUOTED_CHARS: usize = 80;

/// Elements that are widened at a time on their way to or from strings.
const TILE: usize = 128;

/// Their number where there are no more.
const SMALL_TILE: usize = 8;

/// The type through which a numeric type is spelled: the widest of its kind, but FLOAT for every float type up to it, so
/// that the digits are those that read back as a FLOAT (SEMANTICS §9).
fn spelled_as(from: ElementType) -> ElementType {
    match from.family() {
        Family::Float(_) if from == ElementType::Double => ElementType::Double,
        Family::Float(_) => ElementType::Float,
        Family::Signed => ElementType::Int64,
        Family::Unsigned => ElementType::Uint64,
        Family::Bool | Family::Text => ElementType::Bool,
    }
}
