//! A file of events, one at a time: lines of JSON as they stand, rows of columns as the fields of a JSON object.
//!
//! A line that is no event is told with its reason and never ends the reading. Columns become texts, but for those that
//! the configuration reads as numbers; an empty cell is an absent field. Knows nothing of what the fields mean.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Context;

/// How the file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Jsonl,
    /// Columns named in the first line, separated by commas, quoted where needed.
    Csv,
    /// Columns named in the first line, separated by tabs, never quoted.
    Tsv,
}

impl Format {
    /// By the ending of the file's name.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            _ => None,
        }
    }
}

/// Why a line is no event, whatever the configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BadLine {
    /// More or fewer columns than the first line names.
    Columns,
    /// A cell is not UTF-8 text.
    Encoding,
    /// Longer than any record may be.
    Limits,
}

impl BadLine {
    pub fn name(self) -> &'static str {
        match self {
            Self::Columns => "columns",
            Self::Encoding => "encoding",
            Self::Limits => "limits",
        }
    }
}

/// What the configuration says of the file.
#[derive(Debug, Clone)]
pub struct Reading {
    pub format: Format,
    /// Columns whose cells are numbers.
    pub numbers: BTreeSet<String>,
    /// No line of JSON is longer than this.
    pub most_bytes: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Rows {
    form: Form,
    most_bytes: usize,
}

#[derive(Debug)]
enum Form {
    Lines { file: BufReader<File>, read: u64 },
    Columns { file: Box<csv::Reader<File>>, columns: Vec<Column>, record: csv::ByteRecord },
}

#[derive(Debug)]
struct Column {
    /// As JSON.
    name: String,
    is_number: bool,
}

impl Rows {
    pub fn open(path: &Path, reading: &Reading) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        let form = match reading.format {
            Format::Jsonl => Form::Lines { file: BufReader::new(file), read: 0 },
            Format::Csv => Self::columns(csv::ReaderBuilder::new().flexible(true), file, reading)?,
            Format::Tsv => {
                let builder = &mut csv::ReaderBuilder::new();
                Self::columns(builder.delimiter(b'\t').quoting(false).flexible(true), file, reading)?
            }
        };
        Ok(Self { form, most_bytes: reading.most_bytes })
    }

    fn columns(builder: &mut csv::ReaderBuilder, file: File, reading: &Reading) -> anyhow::Result<Form> {
        let mut file = Box::new(builder.from_reader(file));
        let header = file.headers().context("the first line must name the columns")?.clone();
        let mut known = BTreeSet::new();
        if let Some(twice) = header.iter().find(|name| !known.insert(name.to_string())) {
            anyhow::bail!("the first line names the column {twice:?} twice; a field has one value");
        }
        let column = |name: &str| Column {
            name: serde_json::Value::from(name).to_string(),
            is_number: reading.numbers.contains(name),
        };
        Ok(Form::Columns { columns: header.iter().map(column).collect(), file, record: csv::ByteRecord::new() })
    }

    /// Writes the next event over `payload`; none at the end of the file.
    pub fn next(&mut self, payload: &mut Vec<u8>) -> anyhow::Result<Option<Result<(), BadLine>>> {
        payload.clear();
        match &mut self.form {
            Form::Lines { file, read } => Ok(line(file, read, self.most_bytes, payload)?),
            Form::Columns { file, columns, record } => {
                if !file.read_byte_record(record)? {
                    return Ok(None);
                }
                Ok(Some(object(columns, record, payload)))
            }
        }
    }

    /// How far the file is read.
    pub fn bytes_read(&self) -> u64 {
        match &self.form {
            Form::Lines { read, .. } => *read,
            Form::Columns { file, .. } => file.position().byte(),
        }
    }
}

/// A line without its end; what is too long is passed over, not kept.
fn line(
    file: &mut BufReader<File>,
    read: &mut u64,
    most: usize,
    payload: &mut Vec<u8>,
) -> io::Result<Option<Result<(), BadLine>>> {
    let room = (most as u64).saturating_add(2);
    let taken = file.by_ref().take(room).read_until(b'\n', payload)? as u64;
    *read += taken;
    if taken == 0 {
        return Ok(None);
    }
    let whole = payload.last() == Some(&b'\n');
    if !whole && taken == room {
        *read += file.skip_until(b'\n')? as u64;
        return Ok(Some(Err(BadLine::Limits)));
    }
    let kept = payload.trim_ascii_end().len();
    payload.truncate(kept);
    Ok(Some(Ok(())))
}

fn object(columns: &[Column], record: &csv::ByteRecord, payload: &mut Vec<u8>) -> Result<(), BadLine> {
    if record.len() != columns.len() {
        return Err(BadLine::Columns);
    }
    payload.push(b'{');
    for (column, cell) in columns.iter().zip(record.iter()) {
        let text = std::str::from_utf8(cell).map_err(|_| BadLine::Encoding)?;
        if text.is_empty() {
            continue;
        }
        if payload.len() > 1 {
            payload.push(b',');
        }
        payload.extend_from_slice(column.name.as_bytes());
        payload.push(b':');
        match column.is_number && is_json_number(text.trim()) {
            true => payload.extend_from_slice(text.trim().as_bytes()),
            // Where a number is needed the reader refuses a text, with its reason.
            false => payload.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes()),
        }
    }
    payload.push(b'}');
    Ok(())
}

fn is_json_number(text: &str) -> bool {
    serde_json::from_str::<serde_json::Number>(text).is_ok()
}

/// How many lines a file has, about: what is asked how often follows from it.
pub fn count_lines(path: &Path) -> io::Result<u64> {
    let (mut file, mut lines) = (BufReader::with_capacity(1 << 16, File::open(path)?), 0);
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(lines);
        }
        lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let all = bytes.len();
        file.consume(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(format: Format, text: &[u8]) -> Vec<Result<String, BadLine>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let numbers = BTreeSet::from(["bytes".to_owned(), "time".to_owned()]);
        let mut rows = Rows::open(file.path(), &Reading { format, numbers, most_bytes: 40 }).unwrap();
        let (mut payload, mut all) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next(&mut payload).unwrap() {
            all.push(row.map(|()| String::from_utf8_lossy(&payload).into_owned()));
        }
        assert_eq!(rows.bytes_read(), text.len() as u64);
        all
    }

    #[test]
    fn columns_become_fields_and_numbers_stay_numbers() {
        let text = b"host\turl\ttime\tbytes\n1.2\t/a\"b\t807256800\t17\n3\t/x\t8.5\t-\nh\t\t1\t\n";
        assert_eq!(
            rows(Format::Tsv, text),
            [
                Ok(r#"{"host":"1.2","url":"/a\"b","time":807256800,"bytes":17}"#.to_owned()),
                Ok(r#"{"host":"3","url":"/x","time":8.5,"bytes":"-"}"#.to_owned()),
                Ok(r#"{"host":"h","time":1}"#.to_owned()),
            ]
        );
    }

    #[test]
    fn quoted_cells_are_one_cell() {
        let found = rows(Format::Csv, b"host,bytes\n\"a,\"\"b\",1e3\n\"x\ny\",01\n");
        assert_eq!(
            found,
            [Ok(r#"{"host":"a,\"b","bytes":1e3}"#.to_owned()), Ok(r#"{"host":"x\ny","bytes":"01"}"#.to_owned())]
        );
    }

    #[test]
    fn bad_lines_are_told_and_passed_over() {
        let found = rows(Format::Tsv, b"host\turl\na\nb\t/\nc\t\xFF\nd\t/\t?\ne\t/\n");
        let good = |host: &str| Ok(format!(r#"{{"host":"{host}","url":"/"}}"#));
        assert_eq!(found, [Err(BadLine::Columns), good("b"), Err(BadLine::Encoding), Err(BadLine::Columns), good("e")]);
        let long = format!("{{\"a\":1}}\r\n{}\n{}\n\nlast", "x".repeat(40), "y".repeat(42));
        let found = rows(Format::Jsonl, long.as_bytes());
        let text = |text: &str| Ok(text.to_owned());
        assert_eq!(found.len(), 5);
        assert_eq!(found[0], text("{\"a\":1}"));
        assert_eq!(found[1], text(&"x".repeat(40)));
        assert_eq!(found[2..], [Err(BadLine::Limits), text(""), text("last")]);
    }

    #[test]
    fn a_column_that_is_named_twice_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a,b,a\n1,2,3\n").unwrap();
        let reading = Reading { format: Format::Csv, numbers: BTreeSet::new(), most_bytes: 40 };
        assert!(Rows::open(file.path(), &reading).unwrap_err().to_string().contains("\"a\" twice"));
    }
}
