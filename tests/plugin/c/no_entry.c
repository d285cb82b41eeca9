/* A shared library that is no plug-in. */
int kvsim_other(void);
int kvsim_other(void) { return 0; }
