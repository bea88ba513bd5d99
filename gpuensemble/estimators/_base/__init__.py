"""The estimators share this: scikit-learn's side, the template of each family, and the registry of methods."""
