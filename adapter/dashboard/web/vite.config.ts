import { defineConfig } from 'vite';

// The bundle is committed and compared with a rebuild: file names have no hash
// of their own beyond the content's, and no text says when it was built.
export default defineConfig({
  base: './',
  build: {
    target: ['chrome123', 'firefox128', 'safari18'],
    outDir: 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
