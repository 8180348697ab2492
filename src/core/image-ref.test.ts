import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from './error.ts'
import { atDigest, imageText, isImageRef, parseImageRef } from './image-ref.ts'

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`

describe('a reference to an image', () => {
  for (const [written, full] of [
    ['debian', 'docker.io/library/debian:latest'],
    ['debian:12', 'docker.io/library/debian:12'],
    ['docker.io/debian:12', 'docker.io/library/debian:12'],
    ['index.docker.io/library/debian', 'docker.io/library/debian:latest'],
    ['owner/name:v1.2_3-x', 'docker.io/owner/name:v1.2_3-x'],
    ['ghcr.io/owner/name', 'ghcr.io/owner/name:latest'],
    ['localhost/name', 'localhost/name:latest'],
    ['localhost:5000/a/b/c:T', 'localhost:5000/a/b/c:T'],
    ['10.0.0.5:5000/name', '10.0.0.5:5000/name:latest'],
    ['a__b/c.d-e--f_g', 'docker.io/a__b/c.d-e--f_g:latest'],
    [`debian@${DIGEST}`, `docker.io/library/debian@${DIGEST}`],
    [`debian:12@${DIGEST}`, `docker.io/library/debian:12@${DIGEST}`],
  ] as const)
    test(`image reference ${written} means ${full}`, () => {
      assert.equal(imageText(parseImageRef(written)), full)
      assert.equal(imageText(parseImageRef(full)), full, 'what is in full stays as it is')
    })

  for (const [what, text] of [
    ['nothing', ''],
    ['a tag alone', ':12'],
    ['an empty tag', 'debian:'],
    ['a tag with a sign', 'debian:a+b'],
    ['a tag that is too long', `debian:${'t'.repeat(129)}`],
    ['two tags', 'debian:12:13'],
    ['capitals', 'Debian:12'],
    ['capitals in a registry', 'GHCR.io/owner/name'],
    ['a space', 'debian :12'],
    ['a line end', 'debian:12\n'],
    ['a line end before a digest', `debian\n@${DIGEST}`],
    ['an address', 'https://ghcr.io/owner/name'],
    ['a user', 'me:secret@ghcr.io/owner/name'],
    ['a query', 'ghcr.io/owner/name?x=1'],
    ['an option', '--privileged'],
    ['a path upwards', '../debian'],
    ['a path upwards inside', 'ghcr.io/../name'],
    ['an absolute path', '/debian'],
    ['an empty part', 'owner//name'],
    ['a slash at the end', 'ghcr.io/'],
    ['three underscores', 'a___b'],
    ['a dash at the end', 'debian-'],
    ['a port beyond all', 'localhost:70000/name'],
    ['a port that is none', 'localhost:x/name'],
    ['an id', 'a'.repeat(64)],
    ['another algorithm', `debian@sha512:${'a'.repeat(128)}`],
    ['a digest that is too short', `debian@${DIGEST.slice(0, -1)}`],
    ['capitals in a digest', `debian@sha256:${'A'.repeat(64)}`],
    ['two digests', `debian@${DIGEST}@${DIGEST}`],
    ['a name that is too long', 'a'.repeat(256)],
    ['far too much', 'a/'.repeat(100_000)],
  ] as const)
    test(`an image reference is refused: ${what}`, () => {
      assert.equal(isImageRef(text), false)
      assert.throws(
        () => parseImageRef(text),
        (error) => isAgentPodError(error, 'invalid_argument') && error.message.length < 200,
      )
    })

  test('an image reference can be pinned to a digest', () => {
    assert.equal(
      imageText(atDigest(parseImageRef('debian:12'), DIGEST)),
      `docker.io/library/debian:12@${DIGEST}`,
    )
    assert.throws(() => atDigest(parseImageRef('debian'), 'latest'), /sha256/)
  })
})
