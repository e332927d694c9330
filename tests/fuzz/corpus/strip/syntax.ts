let a =
  1 +;
