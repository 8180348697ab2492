/** What is in an exported archive: its manifest, and each of its parts, unpacked if it is packed. */
import { gunzipSync } from 'node:zlib'

export function archiveParts(archive: Buffer): Buffer[] {
  const start = archive.indexOf('\n') + 1
  const length = Number(archive.subarray(0, start).toString().trim().split(' ').at(-1))
  const manifest = archive.subarray(start, start + length)
  const { parts } = JSON.parse(manifest.toString()) as { parts: { sizeBytes: number }[] }
  let at = start + length
  const contents = parts.map(({ sizeBytes }) => {
    const content = archive.subarray(at, at + sizeBytes)
    at += sizeBytes
    return content.readUInt16BE() === 0x1f8b ? gunzipSync(content) : content
  })
  return [manifest, ...contents]
}
