//! The limit of the disk: a file that was filled with zeros, one write and one sync for each group.
//! It checks nothing, and begins again when it is full.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Result;
use crate::writer::{Append, Appending, Grouped, Writer};

const BYTES: u64 = 256 * 1024 * 1024;

pub(crate) struct Raw(Grouped);

impl Raw {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create_new(true).write(true).open(path)?;
        let zeros = vec![0; 1024 * 1024];
        for at in (0..BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        let (mut end, mut group) = (0, Vec::new());
        Ok(Self(Grouped::start(move |appends| {
            group.clear();
            for append in appends {
                for number in 1..=append.events {
                    group.extend_from_slice(append.id.as_bytes());
                    group.extend_from_slice(&(append.after + number).to_be_bytes());
                    group.extend_from_slice(&append.payload);
                }
            }
            if end + group.len() as u64 > BYTES {
                end = 0;
            }
            let written = file
                .write_all_at(&group, end)
                .and_then(|()| file.sync_data());
            end += group.len() as u64;
            written.map_err(|cause| cause.to_string())
        })))
    }
}

impl Writer for Raw {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn append(&self, append: Append) -> Appending {
        self.0.append(append)
    }
}
