// A picture with 256 colours instead of all: a third of its size, and the eye sees no difference.
import * as UPNG from 'upng-js';

const COLORS = 256;

// Base64 of a PNG to base64 of a PNG.
export async function shrink(picture: string): Promise<string> {
  const bytes = Uint8Array.from(atob(picture), (char) => char.charCodeAt(0));
  const decoded = UPNG.decode(bytes.buffer);
  const small = new Uint8Array(UPNG.encode([UPNG.toRGBA8(decoded)[0]], decoded.width, decoded.height, COLORS));
  let text = '';
  for (let at = 0; at < small.length; at += 0x8000) {
    text += String.fromCharCode(...small.subarray(at, at + 0x8000));
  }
  return btoa(text);
}
