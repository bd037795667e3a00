//! Where in a log file the last lines begin.
//!
//! Reads the file backwards in blocks, so that the tail of a large log costs as much as the tail.
//! A line is what ends with a newline in the file, as in the kubelet: the pieces of a long line count one by one.

use std::io::{self, SeekFrom};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeek, AsyncSeekExt};

const BLOCK_BYTES: u64 = 4096;

/// The offset at which the last `lines` lines begin; a last line without an end is not counted.
pub(super) async fn tail_offset<F>(file: &mut F, lines: u64) -> io::Result<u64>
where
    F: AsyncRead + AsyncSeek + Unpin,
{
    let mut block_end = file.seek(SeekFrom::End(0)).await?;
    // The newline that ends the last line does not begin one.
    let mut wanted = lines.saturating_add(1);
    while block_end > 0 {
        let block_start = block_end.saturating_sub(BLOCK_BYTES);
        file.seek(SeekFrom::Start(block_start)).await?;
        let mut block = Vec::new();
        file.take(block_end - block_start).read_to_end(&mut block).await?;
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            wanted -= 1;
            if wanted == 0 {
                return Ok(block_start + index as u64 + 1);
            }
        }
        block_end = block_start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    async fn check(text: &str, lines: u64, expected: &str) -> Result {
        let offset = tail_offset(&mut Cursor::new(text.as_bytes().to_vec()), lines).await?;
        assert_eq!(text.get(usize::try_from(offset)?..), Some(expected));
        Ok(())
    }

    #[tokio::test]
    async fn the_last_lines_are_found() -> Result {
        check("", 3, "").await?;
        check("a\nb\nc\n", 0, "").await?;
        check("a\nb\nc\n", 1, "c\n").await?;
        check("a\nb\nc\n", 2, "b\nc\n").await?;
        check("a\nb\nc\n", 3, "a\nb\nc\n").await?;
        check("a\nb\nc\n", u64::MAX, "a\nb\nc\n").await
    }

    #[tokio::test]
    async fn a_line_without_an_end_comes_on_top() -> Result {
        check("a\nb\nc", 0, "c").await?;
        check("a\nb\nc", 1, "b\nc").await
    }

    #[tokio::test]
    async fn a_tail_longer_than_a_block_is_found() -> Result {
        let line = format!("{}\n", "x".repeat(3000));
        check(&line.repeat(9), 4, &line.repeat(4)).await
    }
}
