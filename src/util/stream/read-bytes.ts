/** Reads a stream to its end. Throws `tooLong()` when it has more than `most` bytes. */
export async function readBytes(
  stream: AsyncIterable<unknown>,
  most: number,
  tooLong: () => Error,
): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > most) throw tooLong()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
