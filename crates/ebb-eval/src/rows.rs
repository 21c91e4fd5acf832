//! Reading a file of events: a line of JSON is one event, a row of a table becomes a JSON object.
//!
//! A malformed line is returned with its reason and does not end the reading. Columns become strings, except those that the
//! configuration reads as numbers; an empty cell is an absent field. This module does not know what the fields mean.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Context;

/// InputFormat of the input file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// One JSON object per line.
    Jsonl,
    /// Columns named in the first line, separated by commas, quoted where needed.
    Csv,
    /// Columns named in the first line, separated by tabs, never quoted.
    Tsv,
}

impl InputFormat {
    /// The format for a file extension.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            _ => None,
        }
    }
}

/// Why a line cannot be read as an event, independent of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BadLine {
    /// The number of columns differs from the header.
    Columns,
    /// A cell is not UTF-8 text.
    Encoding,
    /// Longer than the limit of a record.
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

/// How to read the file.
#[derive(Debug, Clone)]
pub struct RowOptions {
    pub format: InputFormat,
    /// Columns whose cells are numbers.
    pub number_columns: BTreeSet<String>,
    /// Longest line of JSON.
    pub max_line_bytes: usize,
}

/// An iterator over the events of a file.
#[derive(Debug)]
pub struct EventRows {
    source: RowSource,
    max_line_bytes: usize,
}

#[derive(Debug)]
enum RowSource {
    Lines { file: BufReader<File>, read: u64 },
    Columns { file: Box<csv::Reader<File>>, columns: Vec<Column>, record: csv::ByteRecord },
}

#[derive(Debug)]
struct Column {
    /// The name as a JSON string.
    name: String,
    is_number: bool,
}

impl EventRows {
    pub fn open(path: &Path, options: &RowOptions) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        let source = match options.format {
            InputFormat::Jsonl => RowSource::Lines { file: BufReader::new(file), read: 0 },
            InputFormat::Csv => Self::columns(csv::ReaderBuilder::new().flexible(true), file, options)?,
            InputFormat::Tsv => {
                let builder = &mut csv::ReaderBuilder::new();
                Self::columns(builder.delimiter(b'\t').quoting(false).flexible(true), file, options)?
            }
        };
        Ok(Self { source, max_line_bytes: options.max_line_bytes })
    }

    fn columns(builder: &mut csv::ReaderBuilder, file: File, options: &RowOptions) -> anyhow::Result<RowSource> {
        let mut file = Box::new(builder.from_reader(file));
        let header = file.headers().context("reading the header with the column names")?.clone();
        let mut known = BTreeSet::new();
        if let Some(twice) = header.iter().find(|name| !known.insert(name.to_string())) {
            anyhow::bail!("the header names column {twice:?} twice; rename one of them");
        }
        let column = |name: &str| Column {
            name: serde_json::Value::from(name).to_string(),
            is_number: options.number_columns.contains(name),
        };
        Ok(RowSource::Columns { columns: header.iter().map(column).collect(), file, record: csv::ByteRecord::new() })
    }

    /// Writes the next event to `payload`; `None` at the end of the file.
    pub fn next(&mut self, payload: &mut Vec<u8>) -> anyhow::Result<Option<Result<(), BadLine>>> {
        payload.clear();
        match &mut self.source {
            RowSource::Lines { file, read } => Ok(read_line(file, read, self.max_line_bytes, payload)?),
            RowSource::Columns { file, columns, record } => {
                if !file.read_byte_record(record)? {
                    return Ok(None);
                }
                Ok(Some(write_object(columns, record, payload)))
            }
        }
    }

    /// Bytes of the file read so far.
    pub fn bytes_read(&self) -> u64 {
        match &self.source {
            RowSource::Lines { read, .. } => *read,
            RowSource::Columns { file, .. } => file.position().byte(),
        }
    }
}

/// Reads one line without its line break. A line that is too long is skipped.
fn read_line(
    file: &mut BufReader<File>,
    read: &mut u64,
    max_bytes: usize,
    payload: &mut Vec<u8>,
) -> io::Result<Option<Result<(), BadLine>>> {
    let limit = (max_bytes as u64).saturating_add(2);
    let taken = file.by_ref().take(limit).read_until(b'\n', payload)? as u64;
    *read += taken;
    if taken == 0 {
        return Ok(None);
    }
    let is_complete = payload.last() == Some(&b'\n');
    if !is_complete && taken == limit {
        *read += file.skip_until(b'\n')? as u64;
        return Ok(Some(Err(BadLine::Limits)));
    }
    let kept = payload.trim_ascii_end().len();
    payload.truncate(kept);
    Ok(Some(Ok(())))
}

fn write_object(columns: &[Column], record: &csv::ByteRecord, payload: &mut Vec<u8>) -> Result<(), BadLine> {
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
            // If a number is required, the event reader rejects the string with a reason.
            false => payload.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes()),
        }
    }
    payload.push(b'}');
    Ok(())
}

fn is_json_number(text: &str) -> bool {
    serde_json::from_str::<serde_json::Number>(text).is_ok()
}

/// The number of line breaks in a file.
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

    fn rows(format: InputFormat, text: &[u8]) -> Vec<Result<String, BadLine>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let numbers = BTreeSet::from(["bytes".to_owned(), "time".to_owned()]);
        let mut rows =
            EventRows::open(file.path(), &RowOptions { format, number_columns: numbers, max_line_bytes: 40 }).unwrap();
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
            rows(InputFormat::Tsv, text),
            [
                Ok(r#"{"host":"1.2","url":"/a\"b","time":807256800,"bytes":17}"#.to_owned()),
                Ok(r#"{"host":"3","url":"/x","time":8.5,"bytes":"-"}"#.to_owned()),
                Ok(r#"{"host":"h","time":1}"#.to_owned()),
            ]
        );
    }

    #[test]
    fn separators_inside_quotes_do_not_split_a_cell() {
        let found = rows(InputFormat::Csv, b"host,bytes\n\"a,\"\"b\",1e3\n\"x\ny\",01\n");
        assert_eq!(
            found,
            [Ok(r#"{"host":"a,\"b","bytes":1e3}"#.to_owned()), Ok(r#"{"host":"x\ny","bytes":"01"}"#.to_owned())]
        );
    }

    #[test]
    fn bad_lines_are_reported_and_skipped() {
        let found = rows(InputFormat::Tsv, b"host\turl\na\nb\t/\nc\t\xFF\nd\t/\t?\ne\t/\n");
        let good = |host: &str| Ok(format!(r#"{{"host":"{host}","url":"/"}}"#));
        assert_eq!(found, [Err(BadLine::Columns), good("b"), Err(BadLine::Encoding), Err(BadLine::Columns), good("e")]);
        let long = format!("{{\"a\":1}}\r\n{}\n{}\n\nlast", "x".repeat(40), "y".repeat(42));
        let found = rows(InputFormat::Jsonl, long.as_bytes());
        let text = |text: &str| Ok(text.to_owned());
        assert_eq!(found.len(), 5);
        assert_eq!(found[0], text("{\"a\":1}"));
        assert_eq!(found[1], text(&"x".repeat(40)));
        assert_eq!(found[2..], [Err(BadLine::Limits), text(""), text("last")]);
    }

    #[test]
    fn duplicate_column_names_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a,b,a\n1,2,3\n").unwrap();
        let options = RowOptions { format: InputFormat::Csv, number_columns: BTreeSet::new(), max_line_bytes: 40 };
        assert!(EventRows::open(file.path(), &options).unwrap_err().to_string().contains("\"a\" twice"));
    }
}
