// Empty: with a file of this kind the compiler lets a function have no body, as its body is elsewhere.
