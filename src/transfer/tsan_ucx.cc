// Linked into the tests that load UCX 1.13: its library unlocks a mutex at exit that
// ThreadSanitizer never saw locked, since it was before the sanitizer's time. The report has no
// frame of the library to name. Without the sanitizer nobody calls this.
extern "C" const char* __tsan_default_suppressions();   // NOLINT
extern "C" const char* __tsan_default_suppressions() {  // NOLINT
  return "mutex:_dl_call_fini\n";
}
