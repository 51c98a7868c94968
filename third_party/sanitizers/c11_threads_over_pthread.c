// Debian's librdkafka uses C11 threads (thrd_*, mtx_*, cnd_*), which ThreadSanitizer of gcc 12 does
// not intercept: it crashes on the first thread it never saw being made. These definitions come
// first in symbol resolution and go through pthread, which it does intercept. Linked under
// --config=tsan only.
//
// Making and ending mutexes and conditions goes past the interceptors: those count as writes, and
// librdkafka hands its objects from thread to thread through atomics that TSan does not see. Locks,
// and with them all ordering that they make, stay visible.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

struct start {
  thrd_start_t function;
  void* argument;
};

static void* trampoline(void* raw) {
  struct start copy = *(struct start*)raw;
  free(raw);
  return (void*)(intptr_t)copy.function(copy.argument);
}

static int to_c11(int error) {
  switch (error) {
    case 0: return thrd_success;
    case ENOMEM: return thrd_nomem;
    case ETIMEDOUT: return thrd_timedout;
    case EBUSY: return thrd_busy;
    default: return thrd_error;
  }
}

int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  struct start* start = malloc(sizeof *start);
  if (start == NULL) return thrd_nomem;
  start->function = function;
  start->argument = argument;
  int error = pthread_create((pthread_t*)thread, NULL, trampoline, start);
  if (error != 0) free(start);
  return to_c11(error);
}

int thrd_join(thrd_t thread, int* result) {
  void* value = NULL;
  int error = pthread_join((pthread_t)thread, &value);
  if (error == 0 && result != NULL) *result = (int)(intptr_t)value;
  return to_c11(error);
}

int thrd_detach(thrd_t thread) { return to_c11(pthread_detach((pthread_t)thread)); }
thrd_t thrd_current(void) { return (thrd_t)pthread_self(); }
int thrd_equal(thrd_t a, thrd_t b) { return pthread_equal((pthread_t)a, (pthread_t)b); }
void thrd_exit(int result) { pthread_exit((void*)(intptr_t)result); }

__attribute__((no_sanitize("thread"))) int mtx_init(mtx_t* mutex, int type) {
  const pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
  const pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  *(pthread_mutex_t*)mutex = (type & mtx_recursive) ? recursive : plain;
  return thrd_success;
}
int mtx_lock(mtx_t* mutex) { return to_c11(pthread_mutex_lock((pthread_mutex_t*)mutex)); }
int mtx_trylock(mtx_t* mutex) { return to_c11(pthread_mutex_trylock((pthread_mutex_t*)mutex)); }
int mtx_unlock(mtx_t* mutex) { return to_c11(pthread_mutex_unlock((pthread_mutex_t*)mutex)); }
void mtx_destroy(mtx_t* mutex) { (void)mutex; }  // glibc keeps nothing outside the object

__attribute__((no_sanitize("thread"))) int cnd_init(cnd_t* condition) {
  const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
  *(pthread_cond_t*)condition = fresh;
  return thrd_success;
}
int cnd_signal(cnd_t* condition) { return to_c11(pthread_cond_signal((pthread_cond_t*)condition)); }
int cnd_broadcast(cnd_t* condition) {
  return to_c11(pthread_cond_broadcast((pthread_cond_t*)condition));
}
int cnd_wait(cnd_t* condition, mtx_t* mutex) {
  return to_c11(pthread_cond_wait((pthread_cond_t*)condition, (pthread_mutex_t*)mutex));
}
int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const struct timespec* until) {
  return to_c11(pthread_cond_timedwait((pthread_cond_t*)condition, (pthread_mutex_t*)mutex, until));
}
// The C library's own function waits for threads that are just leaving cnd_wait().
void cnd_destroy(cnd_t* condition) {
  void* library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  int (*destroy)(pthread_cond_t*) = NULL;
  if (library != NULL) *(void**)&destroy = dlsym(library, "pthread_cond_destroy");
  if (destroy != NULL) destroy((pthread_cond_t*)condition);
}
