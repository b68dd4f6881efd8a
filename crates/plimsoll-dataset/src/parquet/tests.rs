//! What both kinds of file promise.

use std::path::{Path, PathBuf};

use plimsoll_features::FeatureSchema;
use polars::prelude::{Column, DataFrame, KeyValueMetadata, ParquetWriter, SerReader as _};

use super::*;
use crate::error::DatasetError;
use crate::fixtures::{measurement, sample};
use crate::measurement::Measurement;
use crate::sample::Sample;

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn file() -> File {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("data.parquet");
    File { _folder: folder, path }
}

fn write_measurements(path: &Path, measurements: &[Measurement]) {
    let mut writer = MeasurementWriter::create(path).expect("creates");
    for measurement in measurements {
        writer.write(measurement).expect("writes");
    }
    assert_eq!(writer.finish().expect("finishes"), measurements.len() as u64);
}

fn write_samples(path: &Path, samples: &[Sample]) {
    let mut writer = SampleWriter::create(path).expect("creates");
    for sample in samples {
        writer.write(sample).expect("writes");
    }
    assert_eq!(writer.finish().expect("finishes"), samples.len() as u64);
}

/// A file's table changed, under the file's own feature schema or none, and as another program writes it: unsealed.
fn rewrite(path: &Path, keep_metadata: bool, change: impl FnOnce(&mut DataFrame)) {
    let metadata = RowGroups::open(path).expect("opens").metadata("plimsoll.feature_schema").map(str::to_owned);
    let opened = std::fs::File::open(path).expect("opens");
    let mut frame = polars::prelude::ParquetReader::new(opened).finish().expect("reads");
    change(&mut frame);
    let pairs = metadata.filter(|_| keep_metadata).map(|text| vec![("plimsoll.feature_schema".to_owned(), text)]);
    ParquetWriter::new(std::fs::File::create(path).expect("creates"))
        .with_key_value_metadata(pairs.map(KeyValueMetadata::from_static))
        .with_row_group_size(Some(SampleWriter::MAX_ROWS))
        .finish(&mut frame)
        .expect("writes");
}

fn replace(frame: &mut DataFrame, column: Column) {
    frame.replace(&column.name().clone(), column).expect("a column of that length");
}

#[test]
fn measurements_come_back_as_they_were() {
    let file = file();
    let mut written: Vec<Measurement> = (1..20).map(|index| measurement(index % 4, index)).collect();
    written[3].outcome = Outcome::OutOfMemory { above_mib: 40_313.5 };
    written[4].outcome = Outcome::Unknown;
    written[5].utilisation = [Some(0.333), Some(0.1), None, None, None, Some(2.0 / 7.0)];
    written[6].published_estimates.clear();
    written[7].shape.clear();
    write_measurements(&file.path, &written);
    let reader = read_measurements(&file.path).expect("opens");
    assert_eq!(reader.rows(), written.len());
    let read: Vec<Measurement> = reader.flat_map(|chunk| chunk.expect("reads")).map(|row| row.expect("good")).collect();
    assert_eq!(read, written);
}

#[test]
fn samples_come_back_as_they_were() {
    let file = file();
    let mut written: Vec<Sample> = (0..20).map(|index| sample(index % 5, index + 1)).collect();
    written[3].outcome = Outcome::OutOfMemory { above_mib: 40_313.5 };
    written[4].outcome = Outcome::Unknown;
    written[5].utilisation = [Some(1.0 / 3.0), Some(0.1), None, None, None, Some(2.0 / 7.0)];
    assert!(written[0].features.tokens.is_empty(), "a workload without layers is among them");
    write_samples(&file.path, &written);
    let reader = SampleReader::open(&file.path).expect("opens");
    assert_eq!(reader.rows(), written.len());
    let read: Vec<Sample> = reader.flat_map(|chunk| chunk.expect("reads")).collect();
    assert_eq!(read, written);
}

#[test]
fn reading_takes_one_row_group_at_a_time() {
    let file = file();
    let mut writer = SampleWriter::create(&file.path).expect("creates");
    let mut row = sample(1, 4);
    let total = 2 * SampleWriter::MAX_ROWS + 100;
    for index in 0..total {
        row.id = index.to_string();
        writer.write(&row).expect("writes");
    }
    writer.finish().expect("finishes");
    let mut reader = SampleReader::open(&file.path).expect("opens");
    let sizes: Vec<usize> = reader.by_ref().map(|chunk| chunk.expect("reads").len()).collect();
    assert_eq!(sizes, [SampleWriter::MAX_ROWS, SampleWriter::MAX_ROWS, 100]);

    // Where the second group's bytes are destroyed, the first still reads: nothing of the second is looked at. A file
    // without a seal shows it.
    rewrite(&file.path, true, |_| {});
    let groups = RowGroups::open(&file.path).expect("opens");
    let second = groups.group_range(1);
    let mut bytes = std::fs::read(&file.path).expect("reads");
    bytes[second].fill(0xff);
    std::fs::write(&file.path, bytes).expect("writes");
    let mut reader = SampleReader::open(&file.path).expect("opens");
    assert_eq!(reader.next().expect("a first group").expect("intact").len(), SampleWriter::MAX_ROWS);
    assert!(reader.next().expect("a second group").is_err());
    assert_eq!(reader.next().expect("a third group").expect("intact").len(), 100);
}

#[test]
fn large_rows_make_small_row_groups() {
    let file = file();
    let mut large = sample(1, 4);
    large.architecture = "x".repeat(SampleWriter::MAX_BYTES / 2 + 1);
    write_samples(&file.path, &[large.clone(), large.clone(), large]);
    let sizes: Vec<usize> =
        SampleReader::open(&file.path).expect("opens").map(|chunk| chunk.expect("reads").len()).collect();
    assert_eq!(sizes, [2, 1]);
}

#[test]
fn a_file_without_rows_is_a_file() {
    let file = file();
    write_samples(&file.path, &[]);
    assert_eq!(SampleReader::open(&file.path).expect("opens").count(), 0);
    write_measurements(&file.path, &[]);
    assert_eq!(read_measurements(&file.path).expect("opens").count(), 0);
}

#[test]
fn an_unfinished_file_leaves_nothing_and_a_finished_one_replaces() {
    let file = file();
    write_samples(&file.path, &[sample(1, 4)]);
    let before = std::fs::read(&file.path).expect("reads");
    let mut writer = SampleWriter::create(&file.path).expect("creates");
    writer.write(&sample(2, 4)).expect("writes");
    drop(writer);
    assert_eq!(std::fs::read(&file.path).expect("reads"), before);
    let folder = file.path.parent().expect("has one");
    assert_eq!(std::fs::read_dir(folder).expect("lists").count(), 1, "no temporary file is left");
    write_samples(&file.path, &[sample(2, 4), sample(3, 4)]);
    assert_eq!(SampleReader::open(&file.path).expect("opens").rows(), 2);
    assert!(SampleWriter::create(&folder.join("none/data.parquet")).is_err());
}

#[test]
fn features_of_another_schema_are_refused() {
    let file = file();
    write_samples(&file.path, &[sample(1, 4)]);
    let mut older = FeatureSchema::current();
    older.version += 1;
    let text = serde_json::to_string(&older).expect("serialises");
    let opened = std::fs::File::open(&file.path).expect("opens");
    let mut frame = polars::prelude::ParquetReader::new(opened).finish().expect("reads");
    ParquetWriter::new(std::fs::File::create(&file.path).expect("creates"))
        .with_key_value_metadata(Some(KeyValueMetadata::from_static(vec![("plimsoll.feature_schema".into(), text)])))
        .finish(&mut frame)
        .expect("writes");
    assert!(matches!(SampleReader::open(&file.path), Err(DatasetError::Schema { .. })));
    rewrite(&file.path, false, |_| {});
    assert!(matches!(SampleReader::open(&file.path), Err(DatasetError::Layout { .. })));
}

#[test]
fn a_damaged_sample_is_an_error_with_its_row() {
    let good = sample(2, 8);
    let layers: Vec<u8> = good.features.layers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut infinite = layers.clone();
    infinite[..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let changes: [(Column, &str); 8] = [
        (Column::new("layers".into(), [layers.clone(), layers[4..].to_vec()]), "layers"),
        (Column::new("layers".into(), [layers.clone(), infinite]), "inf"),
        (Column::new("tokens".into(), [vec![0_u8; 8], vec![0xff; 8]]), "token 65535"),
        (Column::new("tokens".into(), [vec![0_u8; 8], vec![0; 7]]), "7 bytes"),
        (Column::new("family".into(), ["mlp", "novel"]), "novel"),
        (Column::new("status".into(), ["ok", "oom"]), "above_mib"),
        (Column::new("gract".into(), [0.5, 1.5]), "1.5"),
        (Column::new("peak_memory_mib".into(), [Some(1500.0), Some(f64::NAN)]), "NaN"),
    ];
    for (column, word) in changes {
        let file = file();
        write_samples(&file.path, &[good.clone(), good.clone()]);
        rewrite(&file.path, true, |frame| replace(frame, column));
        let error =
            SampleReader::open(&file.path).expect("opens").next().expect("a group").expect_err(word).to_string();
        assert!(error.contains("row 2") && error.contains(word), "{word}: {error}");
    }
}

#[test]
fn a_damaged_measurement_is_rejected_and_the_rest_is_read() {
    for (name, text, word) in [
        ("graph_json", "{}", "graph_json"),
        ("gpu_json", "[]", "gpu_json"),
        ("setup_json", "{\"batch_size\": 0}", "batch size"),
        ("label", "guess", "guess"),
        ("status", "fine", "fine"),
        ("published_estimates", "?", "published_estimates"),
    ] {
        let file = file();
        write_measurements(&file.path, &[measurement(2, 8), measurement(2, 9)]);
        rewrite(&file.path, false, |frame| {
            let first = frame.column(name).expect("there").str().expect("text").get(0).expect("filled").to_owned();
            replace(frame, Column::new(name.into(), [first.as_str(), text]));
        });
        let rows = read_measurements(&file.path).expect("opens").next().expect("a group").expect("reads");
        assert_eq!(rows[0].as_ref().expect("good"), &measurement(2, 8));
        let rejection = rows[1].as_ref().expect_err("bad");
        assert_eq!(rejection.id, "fixture.csv:2-9");
        assert!(rejection.reason.contains(word), "{}", rejection.reason);
    }
}

#[test]
fn missing_columns_are_named() {
    let file = file();
    write_measurements(&file.path, &[measurement(2, 8)]);
    rewrite(&file.path, false, |frame| drop(frame.drop_in_place("graph_json").expect("there")));
    let error = read_measurements(&file.path).err().expect("refused").to_string();
    assert!(error.contains("`graph_json`"), "{error}");
}

/// Reads a file of either kind to its end.
fn outcome(path: &Path) -> Result<usize, DatasetError> {
    let groups = RowGroups::open(path)?;
    if groups.columns().iter().any(|column| column == "graph_json") {
        return read_measurements(path)?.try_fold(0, |rows, chunk| Ok(rows + chunk?.len()));
    }
    SampleReader::new(groups)?.try_fold(0, |rows, chunk| Ok(rows + chunk?.len()))
}

/// A file of each kind and its bytes.
fn each_kind() -> [(File, Vec<u8>); 2] {
    let (samples, measurements) = (file(), file());
    write_samples(&samples.path, &(0..50).map(|index| sample(index % 5, index + 1)).collect::<Vec<_>>());
    write_measurements(&measurements.path, &(0..50).map(|index| measurement(index % 5, index + 1)).collect::<Vec<_>>());
    [samples, measurements].map(|file| {
        assert_eq!(outcome(&file.path).expect("whole"), 50);
        let bytes = std::fs::read(&file.path).expect("reads");
        (file, bytes)
    })
}

#[test]
fn damage_anywhere_is_told_before_anything_is_decoded() {
    for (file, whole) in each_kind() {
        let refused = |bytes: &[u8], what: &str| {
            // Writing over a file waits for the disk on some systems; a new file does not.
            std::fs::remove_file(&file.path).expect("removes");
            std::fs::write(&file.path, bytes).expect("writes");
            let error = outcome(&file.path).err().unwrap_or_else(|| panic!("{what} passes")).to_string();
            assert!(error.contains("damaged"), "{what}: {error}");
        };
        let changed = |range: std::ops::Range<usize>, by: &[u8]| {
            let mut bytes = whole.clone();
            bytes.splice(range, by.iter().copied());
            bytes
        };
        let mut flipped = whole.clone();
        // All of the seal and of the end, and some of the rest.
        let end = whole.len().saturating_sub(400)..whole.len();
        for position in (0..end.start).step_by(whole.len() / 600).chain(end) {
            let bits = [0x01, 0x55, 0xff][position % 3];
            flipped[position] ^= bits;
            refused(&flipped, &format!("bits {bits:#x} flipped at {position}"));
            flipped[position] ^= bits;
        }
        for length in (0..whole.len()).step_by(97) {
            refused(&whole[..length], &format!("a cut at {length}"));
        }
        for position in (0..=whole.len()).step_by(97) {
            refused(&changed(position..position, b"x"), &format!("a byte inserted at {position}"));
            refused(&changed(position..position, &[0; 4096]), &format!("a block inserted at {position}"));
            let next = whole.len().min(position + 97);
            if position < next {
                refused(&changed(position..next, &[]), &format!("bytes taken out at {position}"));
                refused(&changed(position..next, &[0xa5; 97][..next - position]), &format!("bytes lost at {position}"));
            }
        }
        for size in [16, 512, 4096] {
            for position in (0..whole.len().saturating_sub(2 * size)).step_by(size) {
                let mut bytes = whole.clone();
                let (left, right) = bytes[position..].split_at_mut(size);
                left.swap_with_slice(&mut right[..size]);
                if bytes != whole {
                    refused(&bytes, &format!("{size} bytes swapped at {position}"));
                }
            }
        }
        refused(&[whole.as_slice(), &whole].concat(), "the file twice");
    }
}

#[test]
fn the_seal_is_where_other_readers_do_not_look() {
    for (file, whole) in each_kind() {
        let opened = std::fs::File::open(&file.path).expect("opens");
        assert_eq!(polars::prelude::ParquetReader::new(opened).finish().expect("reads").height(), 50);
        let mark = whole.windows(8).rposition(|window| window == b"PLIMHASH").expect("sealed");
        let (seal, footer) = (&whole[mark - 72..mark], &whole[mark + 8..]);
        assert_eq!(seal[..32], *blake3::hash(&whole[..mark - 72]).as_bytes());
        assert_eq!(seal[32..64], *blake3::hash(footer).as_bytes());
        assert_eq!(seal[64..], (mark as u64 - 72).to_le_bytes());
    }
}

#[test]
fn a_file_that_another_program_rewrote_needs_no_seal() {
    let file = file();
    write_samples(&file.path, &[sample(2, 8), sample(3, 8)]);
    let whole = std::fs::read(&file.path).expect("reads");
    rewrite(&file.path, true, |frame| *frame = frame.head(Some(1)));
    assert_eq!(outcome(&file.path).expect("reads"), 1);

    // PyArrow takes over the metadata that says that there is a seal, and signs for itself.
    let mark = whole.windows(8).rposition(|window| window == b"PLIMHASH").expect("sealed");
    let mut unsealed = [&whole[..mark - 72], &whole[mark + 8..]].concat();
    let signature = unsealed.windows(6).rposition(|window| window == b"Polars").expect("signed");
    std::fs::write(&file.path, &unsealed).expect("writes");
    assert!(matches!(outcome(&file.path), Err(DatasetError::Damaged { .. })), "ours, and its seal was taken off");
    unsealed[signature..signature + 6].copy_from_slice(b"parrot");
    std::fs::write(&file.path, &unsealed).expect("writes");
    assert_eq!(outcome(&file.path).expect("reads"), 2);
}

#[test]
fn a_footer_that_contradicts_itself_is_refused() {
    let file = file();
    write_samples(&file.path, &[sample(2, 8), sample(3, 8)]);
    rewrite(&file.path, true, |_| {});
    let whole = std::fs::read(&file.path).expect("reads");
    let tail = u32::from_le_bytes(*whole[whole.len() - 8..].first_chunk().expect("four")) as usize + 8;
    // The number of rows follows the schema: field 3, an `i64`, of 2 in zigzag.
    let footer = whole.len() - tail;
    let rows = footer + whole[footer..].windows(3).position(|window| window == [0x16, 4, 0x19]).expect("there") + 1;
    let mut bytes = whole;
    bytes[rows] = 6;
    std::fs::write(&file.path, bytes).expect("writes");
    let error = outcome(&file.path).expect_err("refused").to_string();
    assert!(error.contains("should have 3 rows, but its groups have 2"), "{error}");
}

#[test]
fn damage_is_told_with_what_to_do() {
    let file = file();
    write_samples(&file.path, &[sample(2, 8)]);
    let mut bytes = std::fs::read(&file.path).expect("reads");
    bytes[100] ^= 1;
    std::fs::write(&file.path, bytes).expect("writes");
    // What the file is can be told without its pages.
    let mut reader = SampleReader::open(&file.path).expect("opens");
    let error = reader.next().expect("an item").expect_err("damaged").to_string();
    assert!(error.contains("data.parquet is damaged") && error.ends_with("write it again"), "{error}");
    assert!(reader.next().is_none(), "nothing more comes of it");
}
