"""What the estimators share: scikit-learn's side, the template of each family, and the registry of methods."""
