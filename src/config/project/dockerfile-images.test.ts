import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dockerfileImages } from './dockerfile-images.ts'

test('the images of a Dockerfile are those of FROM, COPY --from and bind mounts, without its own stages', () => {
  const text = `# syntax=docker/dockerfile:1
FROM --platform=linux/amd64 golang:1.24 AS Build
RUN --mount=type=bind,from=tools:1,target=/t make
FROM scratch AS empty
FROM debian:12
COPY --from=build /a /a
COPY --chown=1:2 --from=0 /a /a
COPY --from=ghcr.io/owner/name:2 \\
  # a comment
  /b /b
ONBUILD COPY --from=other:1 /c /c
from debian:12
`
  assert.deepEqual(dockerfileImages(text, {}), [
    'golang:1.24',
    'tools:1',
    'debian:12',
    'ghcr.io/owner/name:2',
  ])
})

test('variables of images have the values of the project’s file, or their defaults', () => {
  const text = `ARG NODE=22 NAME="node"
ARG FULL=\${NAME}:\${NODE}
FROM $FULL
FROM \${OTHER:-debian}:\${TAG:-12} AS one
FROM \${MISSING}/x
FROM a\${NODE:+b}:\${NODE%2}
ARG LATE=python:3
FROM $LATE
`
  assert.deepEqual(dockerfileImages(text, {}), ['node:22', 'debian:12'])
  assert.deepEqual(dockerfileImages(text, { NODE: '24', MISSING: 'm.example' }), ['node:24', 'debian:12'])
  assert.deepEqual(dockerfileImages('ARG BASE\nFROM $BASE\n', { BASE: 'alpine:3' }), ['alpine:3'])
})

test('the content of a heredoc names no image', () => {
  const text = `FROM debian:12
RUN <<EOF cat <<-'TWO'
FROM users
EOF
FROM others
\tTWO
COPY <<"END" /q.sql
FROM query
END
FROM last:1
`
  assert.deepEqual(dockerfileImages(text, {}), ['debian:12', 'last:1'])
})

test('a backtick continues a line where the file says so', () => {
  assert.deepEqual(dockerfileImages('# escape=`\nFROM `\n debian:12\n', {}), ['debian:12'])
})

test('what names no image is left out, and the list is bounded', () => {
  assert.deepEqual(dockerfileImages('FROM ../x\nFROM -v\nFROM\nRUN FROM x\n', {}), [])
  const many = Array.from({ length: 500 }, (_, at) => `FROM image:${at}\n`).join('')
  assert.equal(dockerfileImages(many, {}).length, 64)
})
